"""JSON schemas that callers send."""

from __future__ import annotations

from typing import Any

import pytest

from common.errors import InvalidRequest
from streaming.schemas import MAX_BYTES, MAX_DEPTH, MAX_SCHEMAS, JsonSchema, SchemaReader

RICH: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "Trip",
    "type": "object",
    "properties": {
        "city": {"type": "string", "minLength": 1, "maxLength": 40, "description": "Where to"},
        "when": {"type": "string", "format": "date-time"},
        "days": {"type": ["integer", "null"], "minimum": 1, "exclusiveMaximum": 30, "default": 3},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 3, "x-order": 1},
        "pair": {"type": "array", "prefixItems": [{"const": 1}, True], "items": False},
        "next": {"anyOf": [{"$ref": "#/$defs/stop"}, {"type": "null"}]},
    },
    "required": ["city"],
    "additionalProperties": False,
    "$defs": {"stop": {"type": "string", "pattern": "^[A-Z]+$"}},
}


def test_it_works() -> None:
    assert JsonSchema.read(RICH, "f") == JsonSchema(RICH, "f", "")


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "strin"}, "f.type: expected one or more of string,"),
        ({"type": []}, "f.type: expected one or more of"),
        ({"properties": []}, "f.properties: expected an object."),
        ({"properties": {"a": {"type": 7}}}, "f.properties.a.type: expected"),
        ({"properties": {"a": "string"}}, "f.properties.a: expected a schema"),
        ({"items": {"minLength": -1}}, "f.items.minLength: expected a whole number, 0 or more."),
        ({"items": 7}, "f.items: expected a schema"),
        ({"anyOf": []}, "f.anyOf: expected a list of one or more."),
        ({"anyOf": [{"enum": "a"}]}, "f.anyOf[0].enum: expected a list"),
        ({"maximum": "5"}, "f.maximum: expected a number."),
        ({"maximum": True}, "f.maximum: expected a number."),
        ({"multipleOf": 0}, "f.multipleOf: expected a number above 0."),
        ({"required": "a"}, "f.required: expected a list of names."),
        ({"pattern": 1}, "f.pattern: expected a string."),
        ({"$ref": 1}, "f.$ref: expected a string."),
    ],
)
def test_it_refuses_what_is_no_schema(schema: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        JsonSchema.read(schema, "f")
    assert refused.value.message.startswith(said)


@pytest.mark.parametrize(
    ("schema", "obstacle"),
    [
        ({"not": {}}, "f.not: not supported here."),
        ({"properties": {"a": {"uniqueItems": True}}}, "f.properties.a.uniqueItems: not supported here."),
        ({"x-guidance": {"lenient": True}}, "f.x-guidance: not supported here."),
        ({"propertes": {}}, "f.propertes: no such keyword."),
        ({"format": "regex"}, "f.format: 'regex' is not supported here; date-time, time,"),
        ({"items": [{}]}, "f.items: a list is not supported here, prefixItems is."),
        ({"$ref": "https://example.com/schema"}, "f.$ref: only references within the schema are supported."),
        ({"if": {"type": 7}}, "f.if: not supported here."),
    ],
)
def test_it_names_what_no_answer_can_be_held_to(schema: dict[str, Any], obstacle: str) -> None:
    assert JsonSchema.read(schema, "f").obstacle.startswith(obstacle)


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(levels):
        schema = {"items": schema}
    return schema


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (nested(MAX_DEPTH + 1), "levels of nesting"),
        (nested(100_000), "levels of nesting"),
        ({"enum": ["x" * MAX_BYTES]}, "KiB"),
        ({"anyOf": [{}] * MAX_SCHEMAS}, "schemas within one"),
    ],
    ids=["deep", "very deep", "large", "many"],
)
def test_it_refuses_what_is_too_large(schema: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        JsonSchema.read(schema, "f")


@pytest.mark.parametrize(
    ("schema", "said"),
    [({"enum": ["x" * (MAX_BYTES - 50)]}, "all schemas together"), ({"anyOf": [{}] * 950}, "all together")],
)
def test_it_refuses_what_is_too_large_together(schema: dict[str, Any], said: str) -> None:
    reader = SchemaReader()
    for _ in range(4):
        reader.read(schema, "f")
    with pytest.raises(InvalidRequest, match=said):
        reader.read(schema, "f")
