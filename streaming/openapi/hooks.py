"""The hooks that bring the gateway's paths into the schema; the settings name them, since `api` may not import this."""

from __future__ import annotations

from typing import Any

from api.openapi.common import components
from streaming.openapi.answers import ANSWERS
from streaming.openapi.batches import BATCH_PATHS, BATCH_SCHEMAS, BATCH_TAG, BATCHES_PATH
from streaming.openapi.bodies import body_schemas
from streaming.openapi.events import event_schemas
from streaming.openapi.operations import PATHS, TAGS
from streaming.openapi.structs import schemas_of

Json = dict[str, Any]


def leave_out(endpoints: list[tuple[str, str, str, Any]], **_: Any) -> list[tuple[str, str, str, Any]]:
    """Leave out the paths that are written down here, whoever serves them."""
    return [endpoint for endpoint in endpoints if not endpoint[0].startswith(BATCHES_PATH)]


def add_streaming(result: Json, **_: Any) -> Json:
    """Add the gateway's paths, and what they and those of DRF refer to."""
    result["paths"] = PATHS | BATCH_PATHS | result["paths"]
    result["tags"] = [*TAGS[:1], BATCH_TAG, *TAGS[1:-1], *result.get("tags", []), TAGS[-1]]
    ours = components()
    ours["schemas"] = {
        **body_schemas(), **schemas_of(*ANSWERS), **event_schemas(), **BATCH_SCHEMAS, **ours["schemas"]
    }  # fmt: skip
    theirs = result.setdefault("components", {})
    twice = ours["schemas"].keys() & theirs.get("schemas", {}).keys()
    assert not twice, f"two schemas of one name: {twice}"
    for kind, named in ours.items():
        theirs[kind] = named | theirs.get(kind, {})
    return result
