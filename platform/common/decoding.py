"""Reading bodies by their schemas, and saying what is wrong with one so that it begins with the field."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, TypeVar

import msgspec

from common.errors import InvalidRequest

T = TypeVar("T")
NOT_SUPPORTED = "not supported here"
ONLY_TEXT = "only text is supported"


def decode(decoder: msgspec.json.Decoder[T], raw: bytes, *, unsupported: Collection[str], blocks: str = ONLY_TEXT) -> T:
    """Return the body; raise `InvalidRequest` naming the field, and which of those we know we do not support.

    `blocks` tells which kinds of content a message may have.
    """
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError as error:
        raise fault(str(error), unsupported, blocks=blocks) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"The body is not valid JSON: {error}.") from None
    except RecursionError:
        raise InvalidRequest("The body is nested too deeply.") from None


def convert(value: Any, kind: type[T], *, where: str, unsupported: Collection[str] = ()) -> T:
    """Return a part of a body that was left as it came, read by its own schema; `where` names it."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise fault(str(error), unsupported, where=where) from None


def fault(message: str, unsupported: Collection[str], *, where: str = "", blocks: str = ONLY_TEXT) -> InvalidRequest:
    """Turn msgspec's sentence around, and say in OpenAI's words what kind of fault it is about."""
    text, _, path = message.partition(" - at `$")
    path = (where + path.rstrip("`")).lstrip(".")
    if found := re.search(r"(unknown|missing required) field `(.+)`", text):
        field = ".".join(part for part in (path, found[2]) if part)
        if found[1] != "unknown":
            return InvalidRequest(f"{field}: this field is required.", code="missing_required_parameter")
        if found[2] in unsupported:
            return InvalidRequest(f"{field}: {NOT_SUPPORTED}.", code="unsupported_parameter")
        return InvalidRequest(f"{field}: no such field.", code="unknown_parameter")
    if path.partition(".")[0].partition("[")[0] in unsupported or path.rpartition(".")[2] in unsupported:
        return InvalidRequest(f"{path}: {NOT_SUPPORTED}.", code="unsupported_parameter")
    code = "invalid_type" if re.match(r"Expected `[^`]+`, got ", text) else "invalid_value"
    if found := re.search(r"(content\[\d+\]\.)?content\[\d+\]\.type$", path):
        return InvalidRequest(f"{path}: {ONLY_TEXT if found[1] else blocks}.", code=code)
    return InvalidRequest(f"{path or 'The body'}: {text[0].lower()}{text[1:]}.", code=code)
