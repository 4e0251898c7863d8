"""JSON schemas that callers send: whether they are any, and what in them an answer cannot be held to."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from common.errors import InvalidRequest

Body = dict[str, Any]

# Of one schema. Compiling takes the longer the more schemas there are within it.
MAX_BYTES, MAX_SCHEMAS, MAX_DEPTH = 64 << 10, 1000, 50
# Of all in a request: while they are walked through, no stream gets on.
MAX_BYTES_IN_ALL, MAX_SCHEMAS_IN_ALL = 256 << 10, 4000

TYPES = ("string", "number", "integer", "boolean", "null", "object", "array")
FORMATS = ("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri")

_ANNOTATIONS = {
    "$schema", "$id", "$anchor", "$comment", "title", "description", "default", "examples", "example", "deprecated",
    "readOnly", "writeOnly", "contentMediaType", "contentEncoding", "contentSchema", "discriminator",
}  # fmt: skip
_UNSUPPORTED = {
    "not", "if", "then", "else", "dependentRequired", "dependentSchemas", "dependencies", "unevaluatedProperties",
    "unevaluatedItems", "contains", "minContains", "maxContains", "uniqueItems", "propertyNames", "additionalItems",
    "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor", "$vocabulary", "nullable", "x-guidance",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class JsonSchema:
    """A valid schema that a caller sent in the field `where`. An `obstacle` is what in it no answer can be held to."""

    body: Body
    where: str
    obstacle: str = ""

    @staticmethod
    def read(body: Body, where: str) -> JsonSchema:
        """Check a schema; raise `InvalidRequest` naming the field where it is none, or too large a one."""
        return SchemaReader().read(body, where)


class SchemaReader:
    """Reads the schemas of one request, which have limits together, too."""

    def __init__(self) -> None:
        self._num_bytes = self._num_schemas = 0

    def read(self, body: Body, where: str) -> JsonSchema:
        """Check a schema; raise `InvalidRequest` naming the field where it is none, or too large a one."""
        num_bytes = _size(body, where)
        self._num_bytes += num_bytes
        if num_bytes > MAX_BYTES or self._num_bytes > MAX_BYTES_IN_ALL:
            limits = f"{MAX_BYTES >> 10} KiB, and all schemas together of {MAX_BYTES_IN_ALL >> 10}"
            raise InvalidRequest(f"{where}: expected a schema of at most {limits}.")
        if _depth(body) > MAX_DEPTH:
            raise InvalidRequest(f"{where}: expected at most {MAX_DEPTH} levels of nesting.")
        survey = _Survey(body, where)
        self._num_schemas += survey.num_schemas
        if self._num_schemas > MAX_SCHEMAS_IN_ALL:
            raise InvalidRequest(f"{where}: expected at most {MAX_SCHEMAS_IN_ALL} schemas within all together.")
        return JsonSchema(body, where, survey.obstacle)


class _Survey:
    """A walk through a schema. `obstacle` is the first one found."""

    def __init__(self, schema: Body, where: str) -> None:
        self.obstacle = ""
        self.num_schemas = 0
        self._visit(schema, where)

    def _visit(self, schema: Any, where: str) -> None:
        self.num_schemas += 1
        if self.num_schemas > MAX_SCHEMAS:
            raise InvalidRequest(f"{where}: expected at most {MAX_SCHEMAS} schemas within one.")
        if isinstance(schema, bool):
            return
        if not isinstance(schema, dict):
            raise InvalidRequest(f"{where}: expected a schema, that is an object, true or false.")
        for keyword, value in schema.items():
            self._visit_keyword(keyword, value, f"{where}.{keyword}")

    def _visit_keyword(self, keyword: str, value: Any, where: str) -> None:
        if keyword in _ANNOTATIONS or (keyword.startswith("x-") and keyword not in _UNSUPPORTED):
            return
        if keyword in _KEYWORDS:
            is_right, expected = _KEYWORDS[keyword]
            if not is_right(value):
                raise InvalidRequest(f"{where}: expected {expected}.")
        self.obstacle = self.obstacle or _obstacle(keyword, value, where)
        for path, schema in _schemas_in(keyword, value):
            self._visit(schema, where + path)


def _obstacle(keyword: str, value: Any, where: str) -> str:
    if keyword in _UNSUPPORTED:
        return f"{where}: not supported here."
    if keyword not in _KEYWORDS:
        return f"{where}: no such keyword."
    if keyword == "format" and value not in FORMATS:
        return f"{where}: {value!r} is not supported here; {', '.join(FORMATS)} are."
    if keyword == "items" and isinstance(value, list):
        return f"{where}: a list is not supported here, prefixItems is."
    if keyword == "$ref" and not value.startswith("#"):
        return f"{where}: only references within the schema are supported."
    return ""


def _schemas_in(keyword: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the schemas in a keyword's value, and where they are."""
    if keyword in ("properties", "patternProperties", "$defs", "definitions"):
        yield from ((f".{name}", schema) for name, schema in value.items())
    elif keyword in ("anyOf", "oneOf", "allOf", "prefixItems") or (keyword == "items" and isinstance(value, list)):
        yield from ((f"[{number}]", schema) for number, schema in enumerate(value))
    elif keyword in ("items", "additionalProperties"):
        yield "", value


def _size(schema: Body, where: str) -> int:
    try:
        return len(json.dumps(schema))
    except RecursionError:
        raise InvalidRequest(f"{where}: expected at most {MAX_DEPTH} levels of nesting.") from None


def _depth(value: Any) -> int:
    """Count levels without recursion, and not many more than are allowed."""
    depth, level = 0, [value]
    while level and depth <= MAX_DEPTH:
        depth += 1
        containers = [child for child in level if isinstance(child, dict | list)]
        level = [child for c in containers for child in (c.values() if isinstance(c, dict) else c)]
    return depth


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _is_type(value: Any) -> bool:
    return value in TYPES if isinstance(value, str) else _is_names(value) and bool(value) and set(value) <= set(TYPES)


def _is_filled_list(value: Any) -> bool:
    return isinstance(value, list) and bool(value)


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


Check = tuple[Callable[[Any], bool], str]

_COUNT: Check = (_is_count, "a whole number, 0 or more")
_NUMBER: Check = (_is_number, "a number")
_LIST: Check = (_is_filled_list, "a list of one or more")
_OBJECT: Check = (_is_object, "an object")
_TEXT: Check = (_is_text, "a string")
_ANY: Check = (lambda value: True, "")

_KEYWORDS: dict[str, Check] = {
    "type": (_is_type, f"one or more of {', '.join(TYPES)}"),
    **dict.fromkeys(("properties", "patternProperties", "$defs", "definitions"), _OBJECT),
    **dict.fromkeys(("anyOf", "oneOf", "allOf", "prefixItems", "enum"), _LIST),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), _COUNT),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _NUMBER),
    **dict.fromkeys(("pattern", "format", "$ref"), _TEXT),
    "required": (_is_names, "a list of names"),
    "multipleOf": (lambda value: _is_number(value) and value > 0, "a number above 0"),
    **dict.fromkeys(("const", "items", "additionalProperties"), _ANY),
}
