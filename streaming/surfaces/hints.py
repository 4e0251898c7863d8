"""Hints of clients that cannot change what an answer means: taken, and nothing comes of them here."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

HINT = "x-sluice-hint"  # marks them in the schema that /v1/openapi.json shows
_ABOUT = "A hint: accepted, and nothing comes of it here."

Hint = Annotated[Any, Meta(description=_ABOUT, extra_json_schema={HINT: True})]
