"""Serving one new message to the client that posted it, in whatever form."""

from __future__ import annotations

import asyncio

from accounts.callers import Caller
from common.errors import InvalidRequest
from inference.protocol.outcomes import CancelReason
from streaming.asgi import header, send_json
from streaming.attendance import Attendance, of_joiner, of_poster
from streaming.endpoint import Call
from streaming.entry import Accepted, accepting, enter
from streaming.eventlog import Chunk
from streaming.parting import server_shutdown
from streaming.readers import Reading
from streaming.session import Opening, collect, reading, stream
from streaming.surfaces.surface import Surface
from streaming.timing import Stopwatch
from streaming.wanted import Wanted

CONTINUE, CANCEL = "continue", "cancel"
LONG_ANSWER = 32_000  # bytes of events; from here on putting it together would hold up the streams for over 1 ms


async def serve(
    call: Call, caller: Caller, wanted: Wanted, watch: Stopwatch, *, raw: bytes, streamed: bool, surface: Surface
) -> None:
    """Admit, queue and relay a message. With an idempotency key that came before, relay that key's message."""
    given = header(call.scope, b"idempotency-key")
    cancel = _on_disconnect(call, given)
    async with accepting(call, wanted, caller, watch, raw=raw, idempotency_key=given) as accepted:

        async def opening() -> tuple[Chunk, Attendance]:
            first, joined = await enter(call, accepted, read=True)
            if joined is None:
                return first, of_poster(accepted.request, streamed=streamed)
            return first, of_joiner(joined, watch, streamed=streamed, resumed=True)

        await _relay(call, accepted, opening, watch, streamed=streamed, cancel=cancel, surface=surface)


def _on_disconnect(call: Call, idempotency_key: str) -> CancelReason | None:
    """Return what a client that leaves ends its message with; None lets it go on for the resume window."""
    wish = header(call.scope, b"x-sluice-on-disconnect")
    if wish not in ("", CONTINUE, CANCEL):
        raise InvalidRequest(f"x-sluice-on-disconnect: expected {CONTINUE} or {CANCEL}, not {wish!r}.")
    return None if wish == CONTINUE or (idempotency_key and not wish) else "client_gone"


async def _relay(
    call: Call,
    accepted: Accepted,
    opening: Opening,
    watch: Stopwatch,
    *,
    streamed: bool,
    cancel: CancelReason | None,
    surface: Surface,
) -> None:
    async def farewell(mine: Reading) -> bytes:
        seen, last_sent = mine.reader.cursor, mine.last_sent
        usage = await call.gateway.usages.until(accepted.id, seen)
        return server_shutdown(last_sent, input_tokens=usage.input_tokens, output_tokens=usage.output_tokens)

    async with reading(call, accepted.id, opening, watch, cancel=cancel) as (mine, first):
        if streamed:
            await stream(call, mine, first, watch, headers=accepted.headers, surface=surface, farewell=farewell)
        else:
            frames = await collect(call, mine, first, watch)
            is_long = len(frames) > LONG_ANSWER
            body = await asyncio.to_thread(surface.whole, frames) if is_long else surface.whole(frames)
            await send_json(call.send, body, headers=[*call.headers, *accepted.headers])
