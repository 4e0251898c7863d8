"""Schema, JSON and prose as HTML."""

from __future__ import annotations

import json
import re
from typing import Any

from django.utils.html import escape, format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

Json = dict[str, Any]
_QUOTED = r"&quot;(?:(?!&quot;).)*&quot;"
_WORD = r"(?:true|false|null|-?\d+(?:\.\d+)?)"
_TOKENS = re.compile(
    rf"(?P<key>{_QUOTED})(?=:)|(?P<text>{_QUOTED})|(?P<word>(?:(?<=&quot;:)|(?<=\s)){_WORD}(?=[\s,\]}}]))"
)
_FORMATS = {"date": "date", "date-time": "time", "uri": "URL"}
_BOUNDS = (
    ("minimum", "at least {}"),
    ("exclusiveMinimum", "above {}"),
    ("maximum", "at most {}"),
    ("minLength", "at least {} characters"),
    ("maxLength", "at most {} characters"),
    ("minItems", "at least {}"),
    ("maxItems", "at most {}"),
    ("pattern", "like {}"),
)


def prose(text: str) -> SafeString:
    """Return a sentence, with what stands between backticks as code."""
    return mark_safe(re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text)))  # it was escaped


def coloured(value: Any) -> SafeString:
    """Return JSON with its keys, texts and words told apart."""
    text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
    html = _TOKENS.sub(lambda found: f'<span class="{found.lastgroup}">{found[0]}</span>', escape(text))
    return mark_safe(html)  # it was escaped


def type_of(schema: Json) -> SafeString:
    """Return what values of a schema are, with links to objects that have a place of their own."""
    if reference := schema.get("$ref"):
        name = reference.rpartition("/")[2]
        return format_html('<a href="#{0}">{0}</a>', name)
    if choices := schema.get("anyOf") or schema.get("oneOf"):
        return _either([type_of(choice) for choice in choices])
    if "const" in schema:
        return format_html("<code>{}</code>", json.dumps(schema["const"]))
    if "enum" in schema:
        return _either([format_html("<code>{}</code>", json.dumps(value)) for value in schema["enum"]])
    kinds = schema.get("type", "any")
    return _either([_kind(kind, schema) for kind in (kinds if isinstance(kinds, list) else [kinds])])


def bounds_of(schema: Json) -> str:
    """Return between what values have to be, and what they are unless given."""
    within: Json = next((choice for choice in schema.get("anyOf", ()) if choice.get("type") != "null"), {})
    told = [text.format(found) for name, text in _BOUNDS if (found := schema.get(name, within.get(name))) is not None]
    if schema.get("default") not in (None, [], ""):
        told.append(f"default {json.dumps(schema['default'])}")
    return ", ".join(told)


def _kind(kind: str, schema: Json) -> SafeString:
    if kind == "array":
        return format_html("list of {}", type_of(schema.get("items", {})))
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return format_html("object of {}", type_of(schema["additionalProperties"]))
    if "contentSchema" in schema:
        return format_html("JSON text of {}", type_of(schema["contentSchema"]))
    return format_html("{}", _FORMATS.get(schema.get("format", ""), kind) if kind == "string" else kind)


def _either(parts: list[SafeString]) -> SafeString:
    return format_html_join(mark_safe(' <span class="or">or</span> '), "{}", ((part,) for part in parts))
