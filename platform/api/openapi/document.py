"""The whole schema, built once in each process."""

from __future__ import annotations

from functools import cache
from threading import Lock
from typing import Any

from drf_spectacular.generators import SchemaGenerator

ABOUT = (
    "Language models over HTTP: messages as JSON or as streams that any client can resume. Every answer has a "
    "`request-id`. A field, parameter or `x-sluice-` header that is not known is refused by name, but for the hints "
    "that are marked `x-sluice-hint`, which are accepted and do nothing here; so are `anthropic-beta` and other "
    "headers of official clients."
)
_LARGEST_INTEGERS = (2**63 - 1, 2**31 - 1)
_building = Lock()


def document() -> dict[str, Any]:
    """Return the schema. The first call takes its time, and others that come meanwhile wait for it."""
    with _building:
        return _build()


@cache
def _build() -> dict[str, Any]:
    schema: dict[str, Any] = SchemaGenerator().get_schema(public=True)  # type: ignore[no-untyped-call]
    schema["info"]["description"] = ABOUT
    tidied: dict[str, Any] = _tidied(schema)
    return tidied


def _tidied(schema: Any) -> Any:
    """Leave out what is of the library or of the database, and says nothing of the API."""
    if isinstance(schema, list):
        return [_tidied(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {name: _tidied(part) for name, part in schema.items() if name != "x-spec-enum-id"}
    if kept.get("maximum") in _LARGEST_INTEGERS:
        del kept["maximum"]
    if kept.get("format") in ("int64", "double"):
        del kept["format"]
    return kept
