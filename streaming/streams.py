"""/v1/streams: messages detached from the request that made them, and reading any message again."""

from __future__ import annotations

import asyncio
import time

from accounts.callers import Caller
from common.errors import Gone
from streaming import parting
from streaming.asgi import header, send_bytes, send_json
from streaming.attendance import Attendance, of_joiner
from streaming.auth import key_of
from streaming.endpoint import Call
from streaming.entry import accepting, enter, receiving
from streaming.eventlog import Chunk, Joined
from streaming.readers import Reading
from streaming.session import reading, stream
from streaming.surfaces.anthropic import TypedEvents, assemble, wanted
from streaming.surfaces.messages_body import parse_messages
from streaming.timing import Stopwatch
from streaming.tokens import sign, verify


async def create_stream(call: Call) -> None:
    """Answer POST /v1/streams: queue the message and say where to read it."""
    async with receiving(call) as (raw, caller, watch):
        given = header(call.scope, b"idempotency-key")
        asked = wanted(parse_messages(raw))
        async with accepting(call, asked, caller, watch, raw=raw, idempotency_key=given) as accepted:
            await enter(call, accepted, read=False)
            call.answer.counts = False  # what comes of it is judged where it is settled
        expires_at = int(time.time()) + call.gateway.log.longest_life_s
        path = f"/v1/streams/{accepted.id}"
        body = {
            "id": accepted.id,
            "stream_url": f"{path}?token={sign(accepted.id, caller.key, expires_at)}",
            "message_url": f"{path}/message",
            "expires_at": expires_at,
        }
        await send_json(call.send, body, status=202, headers=[*call.headers, *accepted.headers])


async def read_stream(call: Call) -> None:
    """Answer GET /v1/streams/{id}: the events after `Last-Event-ID`, or all of them."""
    message_id = _message_id(call)
    caller = await _reader(call, message_id)
    if call.scope["method"] == "HEAD":
        await call.gateway.log.check(message_id, caller.organization)
        await send_bytes(call.send, b"", b"text/event-stream; charset=utf-8", headers=call.headers)
        return
    watch = Stopwatch()
    call.follow(watch, "read_stream")
    begin = Chunk(b"", 0, 0, False)

    async def opening() -> tuple[Chunk, Attendance | None]:
        nonlocal begin
        joined = await call.gateway.log.join(message_id, caller.organization)
        begin = _cursor(call, joined)
        if begin.ended:
            return begin, None  # it reads nothing
        return begin, of_joiner(joined, watch, streamed=True, resumed=begin.last_id > 0)

    async def farewell(_: Reading) -> bytes:
        return parting.SHUTDOWN

    with call.gateway.drain.old_work():
        async with reading(call, message_id, opening, watch, cancel=None) as (mine, first):
            if begin.ended:
                mine.reader.ended = True
                await send_bytes(call.send, b"", b"text/plain", status=204, headers=call.headers)
            else:
                await stream(call, mine, first, watch, surface=TypedEvents(), farewell=farewell)


async def cancel_stream(call: Call) -> None:
    """Answer DELETE /v1/streams/{id}: ask the worker to end the message. Asking again changes nothing.

    What had ended otherwise stays as it is, and its outcome is told.
    """
    message_id = _message_id(call)
    caller = await call.gateway.authenticator.authenticate(call.scope, needs="inference")
    if not await call.gateway.log.check(message_id, caller.organization):
        await call.gateway.log.cancel(message_id, "cancelled")
    outcome = await call.gateway.log.outcome(message_id)  # of one that had ended, or just did, before it was asked to
    ended = {"status": "cancelled"} if outcome in (None, "cancelled") else {"status": "ended", "outcome": outcome}
    await send_json(call.send, {"id": message_id} | ended, headers=call.headers)


async def read_message(call: Call) -> None:
    """Answer GET /v1/streams/{id}/message: the finished message, or 202 while it runs."""
    message_id = _message_id(call)
    caller = await call.gateway.authenticator.authenticate(call.scope, needs="inference")
    if not await call.gateway.log.check(message_id, caller.organization):
        headers = [*call.headers, (b"retry-after", b"1")]
        await send_json(call.send, {"id": message_id, "status": "running"}, status=202, headers=headers)
        return
    frames = await call.gateway.log.whole(message_id)
    if not frames:  # it expired between our two looks
        raise Gone(f"The stream of {message_id} has expired.")
    message = await asyncio.to_thread(assemble, frames)  # a long one would hold up the streams
    await send_json(call.send, message, headers=call.headers)


def _message_id(call: Call) -> str:
    return str(call.scope["url_route"]["kwargs"]["message_id"])


async def _reader(call: Call, message_id: str) -> Caller:
    """Return who reads: by key, or by the token that this stream's URL carries."""
    token = call.query.get("token", "")
    if token and not key_of(call.scope):
        return await call.gateway.authenticator.by_id(verify(token, message_id), needs="inference")
    return await call.gateway.authenticator.authenticate(call.scope, needs="inference")


def _cursor(call: Call, joined: Joined) -> Chunk:
    """Return where to begin. The header beats the query, since EventSource keeps its URL.

    What is no id of this log replays all: message_start resets the client. `ended` on the result says that there is
    nothing more to come, ever.
    """
    given = header(call.scope, b"last-event-id") or call.query.get("last_event_id", "")
    position = int(given) if given.isascii() and given.isdecimal() and len(given) < 16 else 0
    if position >= joined.length and joined.ended:
        return Chunk(b"", position, 0, True)
    return Chunk(b"", position if position <= joined.length else 0, 0, False)
