"""POST /v1/messages, as a stream of typed events or as one JSON answer, and POST /v1/messages/count_tokens."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from inference.protocol.reports import Delivery
from streaming.asgi import ClientGone, send_json, wait_for_disconnect
from streaming.drain import farewell
from streaming.endpoint import Call
from streaming.intake import Accepted, accept, enqueue, tokenize
from streaming.reader import LogReader
from streaming.relay import SSE_HEADERS, relay, write
from streaming.surfaces.anthropic import assemble, conversation, parse_count, parse_messages
from streaming.tasks import end
from streaming.timing import Stopwatch


async def create_message(call: Call) -> None:
    """Answer POST /v1/messages."""
    call.gateway.drain.refuse_new_work()
    raw = await call.body()
    watch = Stopwatch()
    caller = await call.gateway.authenticator.authenticate(call.scope, needs="inference")
    watch.stage("auth")
    body = parse_messages(raw)
    accepted = await accept(call, body, caller, watch)
    with call.gateway.drain:
        await (_stream if body.stream else _answer)(call, accepted, watch)


async def count_tokens(call: Call) -> None:
    """Answer POST /v1/messages/count_tokens."""
    raw = await call.body()
    await call.gateway.authenticator.authenticate(call.scope, needs="inference")
    body = parse_count(raw)
    prompt_ids = await tokenize(call.gateway.catalog.find(body.model), conversation(body))
    await send_json(call.send, {"input_tokens": len(prompt_ids)}, headers=call.headers)


async def _stream(call: Call, accepted: Accepted, watch: Stopwatch) -> None:
    """Send the message's events as they come."""
    gateway, message_id = call.gateway, accepted.request.id
    async with gateway.announcements.subscribe(message_id, limit=gateway.settings.stream_buffer_events) as heard:
        first = await enqueue(call, accepted)
        watch.stage("enqueue")
        reader = LogReader(gateway.log, heard, message_id, cursor=first.last_id, behind=False)
        head = [*SSE_HEADERS, *call.headers, *accepted.headers]
        try:
            await call.send({"type": "http.response.start", "status": 200, "headers": head})
            await write(call.send, first.frames)
            watch.bytes_sent += len(first.frames)
            work = relay(reader, call.send, watch, heartbeat_s=gateway.settings.heartbeat_s)
            if not await _while_connected(call, work):
                await write(call.send, farewell(await gateway.log.progress(message_id)))
            await call.send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            _leave(call, accepted, reader, watch, streamed=True)


async def _answer(call: Call, accepted: Accepted, watch: Stopwatch) -> None:
    """Wait for the message's end and send it whole."""
    gateway, message_id = call.gateway, accepted.request.id
    async with gateway.announcements.subscribe(message_id, limit=gateway.settings.stream_buffer_events) as heard:
        first = await enqueue(call, accepted)
        watch.stage("enqueue")
        reader = LogReader(gateway.log, heard, message_id, cursor=first.last_id, behind=False)
        frames = [first.frames]
        try:
            if not await _while_connected(call, _collect(reader, frames, watch, gateway.settings.heartbeat_s)):
                call.gateway.drain.refuse_new_work()
            await send_json(call.send, assemble(b"".join(frames)), headers=[*call.headers, *accepted.headers])
        finally:
            _leave(call, accepted, reader, watch, streamed=False)


async def _collect(reader: LogReader, frames: list[bytes], watch: Stopwatch, look_s: float) -> None:
    while not reader.ended:
        chunk = await reader.next(look_s)
        if chunk is not None:
            frames.append(chunk.frames)
            watch.wrote(len(chunk.frames), chunk.deltas)


async def _while_connected(call: Call, work: Coroutine[Any, Any, None]) -> bool:
    """Do the work; say whether it came to its end before this server's.

    Raise `ClientGone` when the client leaves first. Whatever comes first stops the rest.
    """
    working = asyncio.create_task(work)
    gone = asyncio.create_task(wait_for_disconnect(call.receive))
    stopping = asyncio.create_task(call.gateway.drain.over.wait())
    try:
        await asyncio.wait((working, gone, stopping), return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            working.result()
            return True
        if gone.done():
            raise ClientGone
        return False
    finally:
        await end((working, gone, stopping))


def _leave(call: Call, accepted: Accepted, reader: LogReader, watch: Stopwatch, *, streamed: bool) -> None:
    """Report the delivery; where the client went before the end, have the worker stop too."""
    gateway, request = call.gateway, accepted.request
    if not reader.ended:
        gateway.spawn(gateway.log.cancel(request.id, "client_gone"), "cancel")
    delivery = Delivery(
        id=request.id,
        organization=request.organization,
        key=request.key,
        model=request.model,
        created_at=request.created_at,
        input_tokens=len(request.prompt_ids),
        gateway=gateway.id,
        streamed=streamed,
        ttft_ms=watch.ttft_ms,
        stream_ms=watch.stream_ms,
        tbt_p99_ms=watch.tbt_p99_ms,
        total_ms=watch.total_ms,
        bytes_sent=watch.bytes_sent,
        stages=watch.stages,
    )
    gateway.spawn(gateway.log.report(delivery), "delivery report")
