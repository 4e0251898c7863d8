"""Query parameters: known by name and read strictly, like the fields of a body."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from common.errors import InvalidRequest


def refuse_unknown(given: Iterable[str], known: Collection[str]) -> None:
    """Raise `InvalidRequest` for the first parameter that is not known."""
    for name in given:
        if name not in known:
            expected = " or ".join(sorted(known)) or "none"
            raise InvalidRequest(f"{name}: no such query parameter; expected {expected}.", code="unknown_parameter")


def whole_number(name: str, text: str, *, least: int, most: int) -> int:
    """Read a number, or raise `InvalidRequest` with the range."""
    # The length first: int() refuses very long digits with an error of its own.
    if not (len(text) <= 20 and text.isascii() and text.isdigit() and least <= int(text) <= most):
        raise InvalidRequest(f"{name}: expected a whole number from {least} to {most}.")
    return int(text)
