"""One client at one message: reading it, and the race of all that can end that."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Literal

from redis.exceptions import RedisError

from common.errors import Unavailable
from inference.protocol.outcomes import CancelReason
from streaming import parting
from streaming.asgi import ClientGone, Headers, wait_for_disconnect
from streaming.attendance import Attendance
from streaming.drain import stopping
from streaming.endpoint import Call
from streaming.eventlog import Chunk, StreamLost
from streaming.reader import LogReader
from streaming.readers import Reading
from streaming.relay import SSE_HEADERS, relay
from streaming.surfaces.surface import Surface
from streaming.tasks import end
from streaming.timing import Stopwatch

logger = logging.getLogger(__name__)

Ending = Literal["done", "stopping", "slow"]
Opening = Callable[[], Awaitable[tuple[Chunk, Attendance | None]]]
Farewell = Callable[[Reading], Awaitable[bytes]]


@asynccontextmanager
async def reading(
    call: Call, message_id: str, opening: Opening, watch: Stopwatch, *, cancel: CancelReason | None
) -> AsyncIterator[tuple[Reading, Chunk]]:
    """Read a message that `opening` makes or joins. Its announcements are asked for first, in the same breath.

    `opening` returns where to begin: what is sent first, and up to where; and who reads, for the record. When the
    client leaves before the end, or this server does, and it was the last reader, the message is ended with `cancel`;
    where that is None, or the fault was ours, it has the resume window.
    """
    gateway = call.gateway
    async with gateway.announcements.subscribe(message_id, limit=gateway.settings.stream_buffer_events) as heard:
        first, attendance = await opening()
        watch.stage("enqueue")
        reader = LogReader(gateway.log, heard, message_id, cursor=first.last_id)
        mine = Reading(message_id, heard, reader, last_sent=first.frames)
        gateway.readers.add(mine)
        reason: CancelReason | None = None
        try:
            yield mine, first
            reason = None if mine.failed else cancel
        except (ClientGone, Unavailable, asyncio.CancelledError):
            reason = None if mine.slow.is_set() else cancel
            raise
        finally:
            gateway.readers.remove(mine)
            if not reader.ended:
                gateway.spawn(_leave(call, message_id, attendance, reason), "leave")
            if attendance is not None:
                told = attendance.delivery(watch, reader=call.request_id, gateway=gateway.id, ended=reader.ended)
                gateway.spawn(gateway.log.report(told), "delivery report")
                gateway.measures.delivered(told, watch, mine.last_sent)
                if call.trace is not None:
                    call.trace.delivered(told)


async def _leave(call: Call, message_id: str, attendance: Attendance | None, cancel: CancelReason | None) -> None:
    is_there = await call.gateway.log.leave(message_id, cancel=cancel)
    if not is_there and attendance is not None:
        await call.gateway.lost.account_for(attendance.facts)


async def stream(
    call: Call,
    mine: Reading,
    first: Chunk,
    watch: Stopwatch,
    *,
    surface: Surface,
    farewell: Farewell,
    headers: Headers = (),
) -> None:
    """Send a message's events as they come, to the end of the message, or to this server's with a farewell."""
    head = [*SSE_HEADERS, *call.headers, *headers]
    await call.send({"type": "http.response.start", "status": 200, "headers": head})
    is_parted = False
    try:
        frames = surface.translate(first.frames)
        # Even where there is nothing to say yet: the headers go with the first body.
        await call.send({"type": "http.response.body", "body": frames, "more_body": True})
        watch.wrote(len(frames), 0)
        work = relay(mine, call.write, watch, surface, heartbeat_s=call.gateway.settings.heartbeat_s)
        ending = await race(call, mine, work)
        if ending == "slow":  # it can resume from the log
            call.gateway.measures.slow()
            call.drop()
            raise ClientGone
        if ending == "stopping" and not mine.reader.ended:  # its end may be written already, and not taken yet
            last = await farewell(mine)
            is_parted = True
            await _part(call, mine, surface, last)
    except ClientGone:
        raise
    except asyncio.CancelledError:  # by a server that has no more time for a farewell: even then, no bare end of file
        if call.gateway.drain.over.is_set() and not (is_parted or mine.reader.ended):
            await _part(call, mine, surface, parting.failure(mine.last_sent, "The server is stopping."))
            await call.send({"type": "http.response.body", "body": b"", "more_body": False})
        raise
    except Exception as error:  # whatever it is, the client gets a typed end
        logger.exception("%s: the stream of %s failed", call.request_id, mine.message_id)
        mine.failed = True
        await _part(call, mine, surface, parting.failure(mine.last_sent, _reason(error)))
    finally:
        call.answer.last_sent = mine.last_sent
    await call.send({"type": "http.response.body", "body": b"", "more_body": False})


async def _part(call: Call, mine: Reading, surface: Surface, last: bytes) -> None:
    """End a stream with events that are not in its log."""
    last, mine.last_sent = surface.translate(last), last
    await call.write(last)


async def collect(call: Call, mine: Reading, first: Chunk, watch: Stopwatch) -> bytes:
    """Return all of a message's events, once it has ended."""
    frames = [first.frames]

    async def gather() -> None:
        while not mine.reader.ended:
            chunk = await mine.reader.next(call.gateway.settings.heartbeat_s)
            if chunk is not None:
                frames.append(chunk.frames)
                watch.wrote(len(chunk.frames), chunk.deltas)

    if await race(call, mine, gather()) == "stopping":
        raise stopping()
    call.answer.last_sent = b"".join(frames[-2:])
    return b"".join(frames)


async def race(call: Call, mine: Reading, work: Coroutine[Any, Any, None]) -> Ending:
    """Do the work, until it is done, this server stops, or its client turns out to be slow.

    Raise `ClientGone` when the client leaves first. Whatever comes first stops the rest.
    """
    working = asyncio.create_task(work)
    gone = asyncio.create_task(wait_for_disconnect(call.receive))
    over = asyncio.create_task(call.gateway.drain.over.wait())
    slow = asyncio.create_task(mine.slow.wait())
    tasks = (working, gone, over, slow)
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            working.result()
            return "done"
        if gone.done():
            raise ClientGone
        return "slow" if slow.done() else "stopping"
    finally:
        await end(tasks)


def _reason(error: Exception) -> str:
    if isinstance(error, StreamLost):
        return "The stream was lost on the server."
    if isinstance(error, RedisError | OSError):
        return "The event log cannot be reached."
    return "The server failed to relay this stream. It has been logged."
