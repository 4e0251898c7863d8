"""Keys and limits in words, for tables that people read."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.utils import timezone

from accounts.models import ApiKey, Limits

_SUFFIXES = ((10**9, "G"), (10**6, "M"), (10**3, "k"))
_WORDS = {
    "rpm": "rpm",
    "itpm": "itpm",
    "otpm": "otpm",
    "max_streams": "streams",
    "budget_tokens_day": "tokens/day",
    "budget_tokens_month": "tokens/month",
    "budget_tokens": "tokens",
}


def limits(level: Limits) -> str:
    """Return the limits of a key or an organisation: `60 rpm, 1M tokens`, or "" where there are none."""
    found = [f"{short(value)} {word}" for name, word in _WORDS.items() if (value := getattr(level, name)) is not None]
    return ", ".join(found) + (" (shadow)" if found and level.shadow else "")


def short(number: int) -> str:
    """Return a number with a suffix where that loses nothing: 1500000 is 1.5M, 1500001 stays."""
    for size, suffix in _SUFFIXES:
        if number >= size and number % (size // 10) == 0:
            return f"{number / size:,.1f}".removesuffix(".0") + suffix
    return str(number)


def state(key: ApiKey) -> str:
    """Return how a key stands, and until when."""
    if key.state != "active":
        return key.state
    ends = min((end for end in (key.expires_at, key.organization.expires_at) if end), default=None)
    return f"ends {ahead(ends)}" if ends else "active"


def ahead(when: datetime) -> str:
    """Return how far ahead a moment lies, roughly."""
    return f"in {_rough(when - timezone.now())}"


def ago(when: datetime | None) -> str:
    """Return how long ago a moment was, roughly."""
    if when is None:
        return "never"
    passed = timezone.now() - when
    return "now" if passed < timedelta(minutes=1) else f"{_rough(passed)} ago"


def _rough(span: timedelta) -> str:
    for unit, name in ((timedelta(days=1), "d"), (timedelta(hours=1), "h")):
        if span >= 2 * unit:
            return f"{span // unit} {name}"
    return f"{max(span // timedelta(minutes=1), 1)} min"
