"""Reading bodies by their schemas, and saying what is wrong with one so that it begins with the field."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TypeVar

import msgspec

from common.errors import InvalidRequest

T = TypeVar("T")
NOT_SUPPORTED = "not supported here"


def decode(decoder: msgspec.json.Decoder[T], raw: bytes, *, unsupported: Collection[str]) -> T:
    """Return the body; raise `InvalidRequest` naming the field, and which of those we know we do not support."""
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError as error:
        raise InvalidRequest(explain(str(error), unsupported)) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"The body is not valid JSON: {error}.") from None


def explain(message: str, unsupported: Collection[str]) -> str:
    """Turn msgspec's sentence around."""
    text, _, path = message.partition(" - at `$")
    path = path.rstrip("`").lstrip(".")
    if found := re.search(r"(unknown|missing required) field `(.+)`", text):
        field = ".".join(part for part in (path, found[2]) if part)
        if found[1] != "unknown":
            return f"{field}: this field is required."
        return f"{field}: {NOT_SUPPORTED if found[2] in unsupported else 'no such field'}."
    if path.partition(".")[0].partition("[")[0] in unsupported:
        return f"{path}: {NOT_SUPPORTED}."
    if re.search(r"content\[\d+\]\.type$", path):
        return f"{path}: only text is supported."
    return f"{path}: {text[0].lower()}{text[1:]}." if path else f"The body: {text[0].lower()}{text[1:]}."
