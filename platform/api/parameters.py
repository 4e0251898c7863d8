"""Query parameters: known by name and read strictly, like the fields of a body."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

from common.errors import InvalidRequest

_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A query parameter that a path knows: what it is for, and the JSON schema of its values."""

    name: str
    about: str
    schema: Mapping[str, Any]


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


def a_date(name: str, text: str) -> date:
    """Read a date, or raise `InvalidRequest`."""
    found = _date(text)
    if found is None:
        raise InvalidRequest(f"{name}: expected a date such as 2030-01-31.")
    return found


def a_date_or_time(name: str, text: str) -> date | datetime:
    """Read a date, or a time with its offset as RFC 3339 has it; raise `InvalidRequest` for anything else."""
    found = _date(text) or _time(text)
    if found is None:
        raise InvalidRequest(f"{name}: expected a date such as 2030-01-31, or a time such as 2030-01-31T12:00:00Z.")
    return found


def words(name: str, text: str, *, known: Collection[str]) -> list[str]:
    """Read some of the words that are known, between commas; raise `InvalidRequest` for anything else."""
    found = text.split(",")
    if len(set(found)) < len(found) or not set(found) <= set(known):
        raise InvalidRequest(f"{name}: expected some of {', '.join(known)}, with commas between them.")
    return found


def _date(text: str) -> date | None:
    try:
        return date.fromisoformat(text) if _DATE.fullmatch(text) else None
    except ValueError:
        return None


def _time(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text).astimezone(UTC) if _TIME.fullmatch(text) else None
    except (ValueError, OverflowError):
        return None
