"""Random JSON schemas in ASCII, and a check of values against them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

Schema = dict[str, Any]

_names = st.text("abcdxyz_", min_size=1, max_size=5)
_texts = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=4)
_scalars = st.none() | st.booleans() | st.integers(-99, 99) | _texts


@st.composite
def _ranges(draw: st.DrawFn, low: int, high: int) -> tuple[int, int]:
    return tuple(sorted((draw(st.integers(low, high)), draw(st.integers(low, high)))))  # type: ignore[return-value]


_strings = _ranges(0, 6).map(lambda r: {"type": "string", "minLength": r[0], "maxLength": r[1]})
_numbers = st.tuples(st.sampled_from(["integer", "number"]), _ranges(-50, 50)).map(
    lambda given: {"type": given[0], "minimum": given[1][0], "maximum": given[1][1]}
)
_others = st.sampled_from([{"type": "boolean"}, {"type": "null"}]) | st.lists(_scalars, min_size=1, max_size=3).map(
    lambda values: {"enum": values}
)
_leaves = _strings | _numbers | _others | _scalars.map(lambda value: {"const": value})


def _arrays(items: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    return st.tuples(items, _ranges(0, 3)).map(
        lambda given: {"type": "array", "items": given[0], "minItems": given[1][0], "maxItems": given[1][1]}
    )


@st.composite
def _objects(draw: st.DrawFn, values: st.SearchStrategy[Schema]) -> Schema:
    properties = draw(st.dictionaries(_names, values, max_size=3))
    required = draw(st.lists(st.sampled_from(sorted(properties)), unique=True)) if properties else []
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _unions(schemas: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    return st.lists(schemas, min_size=1, max_size=3).map(lambda given: {"anyOf": given})


schemas = st.recursive(_leaves, lambda s: _arrays(s) | _objects(s) | _unions(s), max_leaves=6)
object_schemas = _objects(schemas)

_KINDS: dict[str, type | tuple[type, ...]] = {
    "string": str, "integer": int, "number": (int, float), "boolean": bool, "null": type(None), "array": list,
    "object": dict,
}  # fmt: skip


def is_valid(value: Any, schema: Schema) -> bool:
    """Say whether a value fits a schema of those that are made here."""
    if "anyOf" in schema:
        return any(is_valid(value, each) for each in schema["anyOf"])
    if "const" in schema:
        return _same(value, schema["const"])
    if "enum" in schema:
        return any(_same(value, each) for each in schema["enum"])
    kind: str = schema["type"]
    if not isinstance(value, _KINDS[kind]) or (isinstance(value, bool) and kind != "boolean"):
        return False
    return _fits(value, kind, schema)


def _fits(value: Any, kind: str, schema: Schema) -> bool:
    if kind in ("integer", "number"):
        return bool(schema["minimum"] <= value <= schema["maximum"])
    if kind == "string":
        return bool(schema["minLength"] <= len(value) <= schema["maxLength"])
    if kind == "array":
        fits = schema["minItems"] <= len(value) <= schema["maxItems"]
        return fits and all(is_valid(item, schema["items"]) for item in value)
    if kind == "object":
        properties = schema["properties"]
        fits = set(schema["required"]) <= value.keys() <= properties.keys()
        return fits and all(is_valid(item, properties[name]) for name, item in value.items())
    return True


def _same(value: Any, other: Any) -> bool:
    return type(value) is type(other) and bool(value == other)
