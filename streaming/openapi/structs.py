"""From msgspec's structs to schemas."""

from __future__ import annotations

from typing import Any

import msgspec

Json = dict[str, Any]


def schemas_of(*structs: type[Any], prefix: str = "") -> Json:
    """Return the schemas of structs and of all within them, by name; `prefix` keeps those of one surface apart."""
    _, found = msgspec.json.schema_components(structs, ref_template=f"#/components/schemas/{prefix}{{name}}")
    return {prefix + name: _tidied(schema) for name, schema in found.items()}


def _tidied(schema: Any) -> Any:
    """Leave out what says nothing, and put a lone choice the way people write it."""
    if isinstance(schema, list):
        return [_tidied(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    tidied = {name: _tidied(part) for name, part in schema.items()}
    if isinstance(tidied.get("title"), str) and "type" in tidied:
        del tidied["title"]
    if tidied.get("required") == []:
        del tidied["required"]
    if "default" in tidied and tidied["default"] is None:
        del tidied["default"]
    if isinstance(tidied.get("enum"), list) and len(tidied["enum"]) == 1:
        tidied["const"] = tidied.pop("enum")[0]
    return tidied
