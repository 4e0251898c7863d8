"""GET /v1/models and /v1/models/{id}."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from streaming.asgi import send_json
from streaming.catalog import Model
from streaming.endpoint import Call


async def list_models(call: Call) -> None:
    """List what is served now, in a form that both Anthropic's and OpenAI's clients read."""
    await call.gateway.authenticator.authenticate(call.scope, needs="inference")
    rows = [_row(model) for model in call.gateway.catalog.models()]
    ends = {"first_id": rows[0]["id"] if rows else None, "last_id": rows[-1]["id"] if rows else None}
    body = {"object": "list", "data": rows, "has_more": False} | ends
    await send_json(call.send, body, headers=call.headers)


async def show_model(call: Call) -> None:
    """Show one model."""
    await call.gateway.authenticator.authenticate(call.scope, needs="inference")
    name = call.scope["url_route"]["kwargs"]["name"]
    await send_json(call.send, _row(call.gateway.catalog.find(name)), headers=call.headers)


def _row(model: Model) -> dict[str, Any]:
    since = datetime.fromtimestamp(model.created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    anthropic = {"type": "model", "display_name": model.name, "created_at": since}
    openai = {"object": "model", "created": int(model.created), "owned_by": "sluice"}
    return {"id": model.name, "max_input_tokens": model.context_length} | anthropic | openai
