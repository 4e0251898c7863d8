"""Serving one new message to the client that posted it, in whatever form."""

from __future__ import annotations

from accounts.keys import Caller
from common.errors import InvalidRequest
from inference.protocol.outcomes import CancelReason
from inference.protocol.reports import Delivery, common_of
from streaming.asgi import header, send_json
from streaming.endpoint import Call
from streaming.eventlog import Chunk
from streaming.intake import Accepted, accept, enter
from streaming.parting import server_shutdown
from streaming.readers import Reading
from streaming.session import Opening, collect, reading, stream
from streaming.surfaces.surface import Surface
from streaming.timing import Stopwatch
from streaming.wanted import Wanted

CONTINUE, CANCEL = "continue", "cancel"


async def serve(
    call: Call, caller: Caller, wanted: Wanted, watch: Stopwatch, *, raw: bytes, streamed: bool, surface: Surface
) -> None:
    """Admit, queue and relay a message. With an idempotency key that came before, relay that key's message."""
    given = header(call.scope, b"idempotency-key")
    cancel = _on_disconnect(call, given)
    accepted = await accept(call, wanted, caller, watch, raw=raw, idempotency_key=given)
    opened = False

    async def opening() -> Chunk:
        nonlocal opened
        first = await enter(call, accepted, read=True)
        opened = True
        return first

    try:
        await _relay(call, accepted, opening, watch, streamed=streamed, cancel=cancel, surface=surface)
    finally:
        if opened and accepted.is_new:  # a refused request has no record
            _report(call, accepted, watch, streamed=streamed)


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
        return server_shutdown(await call.gateway.log.progress(accepted.id, until=mine.reader.cursor))

    async with reading(call, accepted.id, opening, watch, cancel=cancel) as (mine, first):
        if streamed:
            await stream(call, mine, first, watch, headers=accepted.headers, surface=surface, farewell=farewell)
        else:
            frames = await collect(call, mine, first, watch)
            await send_json(call.send, surface.whole(frames), headers=[*call.headers, *accepted.headers])


def _report(call: Call, accepted: Accepted, watch: Stopwatch, *, streamed: bool) -> None:
    """Hand what the client felt to the record keepers."""
    gateway = call.gateway
    delivery = Delivery(
        **common_of(accepted.request),
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
