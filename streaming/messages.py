"""POST /v1/messages and /v1/messages/count_tokens."""

from __future__ import annotations

from streaming.asgi import send_json
from streaming.endpoint import Call
from streaming.entry import receiving
from streaming.intake import tokenize
from streaming.posting import serve
from streaming.surfaces.anthropic import TypedEvents, asked, wanted
from streaming.surfaces.messages_body import parse_count, parse_messages


async def create_message(call: Call) -> None:
    """Answer POST /v1/messages with a stream of typed events, or with one JSON."""
    async with receiving(call) as (raw, caller, watch):
        body = parse_messages(raw)
        await serve(call, caller, wanted(body), watch, raw=raw, streamed=body.stream, surface=TypedEvents())


async def count_tokens(call: Call) -> None:
    """Answer POST /v1/messages/count_tokens."""
    raw = await call.body()
    caller = await call.gateway.authenticator.authenticate(call.scope, needs="inference")
    body = parse_count(raw)
    prompt_ids = await tokenize(call.gateway.catalog.find(body.model, caller), asked(body))
    await send_json(call.send, {"input_tokens": len(prompt_ids)}, headers=call.headers)
