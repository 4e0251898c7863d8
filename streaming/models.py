"""GET /v1/models and /v1/models/{id}."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from api.parameters import whole_number
from common.error_forms import speaks_openai
from common.errors import InvalidRequest
from streaming.asgi import header, send_json
from streaming.catalog import Model
from streaming.endpoint import Call

PAGE, LARGEST_PAGE = 20, 1000


async def list_models(call: Call) -> None:
    """List what is served now, in a form that both Anthropic's and OpenAI's clients read.

    Anthropic's ask for pages of 20 unless they say otherwise. OpenAI's know of no pages: they get all in one.
    """
    caller = await call.gateway.authenticator.authenticate(call.scope, needs="inference")
    models = call.gateway.catalog.models(caller)
    openai = speaks_openai(call.scope["path"], lambda name: header(call.scope, name.encode()))
    page, has_more = page_of(models, call.query, limit=len(models) if openai else PAGE)
    rows = [_row(model) for model in page]
    ends = {"first_id": rows[0]["id"] if rows else None, "last_id": rows[-1]["id"] if rows else None}
    await send_json(call.send, {"object": "list", "data": rows, "has_more": has_more} | ends, headers=call.headers)


def page_of(models: list[Model], query: Mapping[str, str], *, limit: int) -> tuple[list[Model], bool]:
    """Return the page that the query asks for, and whether there are more in its direction."""
    if "limit" in query:
        limit = whole_number("limit", query["limit"], least=1, most=LARGEST_PAGE)
    if "after_id" in query and "before_id" in query:
        raise InvalidRequest("before_id: give it or after_id, not both.")
    if "before_id" in query:
        before = models[: _position(models, "before_id", query)]
        return before[-limit:], len(before) > limit
    after = models[_position(models, "after_id", query) + 1 :] if "after_id" in query else models
    return after[:limit], len(after) > limit


def _position(models: list[Model], parameter: str, query: Mapping[str, str]) -> int:
    for position, model in enumerate(models):
        if model.name == query[parameter]:
            return position
    raise InvalidRequest(f"{parameter}: expected the id of a model in this list.")


async def show_model(call: Call) -> None:
    """Show one model."""
    caller = await call.gateway.authenticator.authenticate(call.scope, needs="inference")
    name = call.scope["url_route"]["kwargs"]["name"]
    await send_json(call.send, _row(call.gateway.catalog.find(name, caller)), headers=call.headers)


def _row(model: Model) -> dict[str, Any]:
    since = datetime.fromtimestamp(model.created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    anthropic = {"type": "model", "display_name": model.name, "created_at": since}
    openai = {"object": "model", "created": int(model.created), "owned_by": "sluice"}
    return {"id": model.name, "max_input_tokens": model.context_length} | anthropic | openai
