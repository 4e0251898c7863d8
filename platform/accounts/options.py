"""What the commands about keys share: reading their options, and finding the one key that is meant."""

from __future__ import annotations

import re
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta

from django.core.exceptions import ValidationError
from django.core.management.base import CommandError
from django.db.models import Q, QuerySet
from django.utils import timezone

from accounts.models import ApiKey
from accounts.plain import START, prefix_of
from accounts.terms import LARGEST_LIMIT

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION = re.compile(r"(\d{1,9})([smhd])")
CANDIDATES = 20


def whole_number(text: str) -> int:
    """Read a limit."""
    if not (text.isascii() and text.isdecimal() and len(text) <= 20 and 1 <= int(text) <= LARGEST_LIMIT):
        raise ArgumentTypeError(
            f"expected a whole number from 1 to {LARGEST_LIMIT}, not {text!r}; leave it out for none"
        )
    return int(text)


def duration(text: str) -> timedelta:
    """Read a duration: `0`, or a number and one of s, m, h, d."""
    if text == "0":
        return timedelta()
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ArgumentTypeError(f"expected 0 or a duration such as 90s, 30m, 24h or 7d, not {text!r}")
    return timedelta(seconds=int(match[1]) * _UNITS[match[2]])


def moment(text: str) -> datetime:
    """Read a moment to come: a duration from now, or an ISO date or time (UTC where it has no offset)."""
    try:
        if match := _DURATION.fullmatch(text):
            when = timezone.now() + timedelta(seconds=int(match[1]) * _UNITS[match[2]])
        else:
            when = datetime.fromisoformat(text)
            when = when if when.tzinfo else when.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise ArgumentTypeError(
            f"expected a duration such as 30d, or a time such as 2030-01-31, not {text!r}"
        ) from None
    if when <= timezone.now():
        raise ArgumentTypeError(f"expected a time to come, not {text!r}")
    return when


def words(known: Iterable[str] | None = None) -> Callable[[str], list[str]]:
    """Return a reader of words between commas, each of them known where that is given."""

    def read(text: str) -> list[str]:
        found = [word.strip() for word in text.split(",") if word.strip()]
        unknown = [word for word in found if known is not None and word not in known]
        if unknown or not found:
            expected = f"some of {', '.join(known)}" if known is not None else "names between commas"
            raise ArgumentTypeError(f"expected {expected}, not {text!r}")
        return found

    return read


def add_key(parser: ArgumentParser) -> None:
    """Ask for one key."""
    parser.add_argument("key", help="its name, its visible prefix or the beginning of that, or its id")
    parser.add_argument("--org", default="", help="organisation it belongs to, where several have one of this name")


def one_key(word: str, organization: str) -> ApiKey:
    """Return the key that is meant, or end the command with what there is to choose from."""
    keys = ApiKey.objects.select_related("organization")
    if organization:
        keys = keys.filter(organization__name=organization)
    candidates = _candidates(keys, word)
    found = list(candidates.filter(revoked_at=None).order_by("organization__name", "name", "prefix")[: CANDIDATES + 1])
    if len(found) == 1:
        return found[0]
    if found:
        more = "\n  …" if len(found) > CANDIDATES else ""
        lines = "".join(f"\n  {_told(key)}" for key in found[:CANDIDATES])
        raise CommandError(f"{_shown(word)} is ambiguous. Give the prefix of one of these:{lines}{more}")
    if candidates.exists():
        raise CommandError(f"{_shown(word)} is revoked already.")
    where = f" in {organization}" if organization else ""
    raise CommandError(f"No key has the name, prefix or id {_shown(word)}{where}. `manage.py keys` lists them.")


def complaint(error: ValidationError) -> CommandError:
    """Return what ends a command when a key cannot be as asked."""
    return CommandError(" ".join(f"{field}: {' '.join(texts)}" for field, texts in error.message_dict.items()))


def names_prefix(word: str, prefix: str) -> bool:
    """Say whether a prefix, or the key that has it, is what was asked for."""
    start = word.rstrip("…")
    return start.startswith(prefix) or (len(start) > len(START) and prefix.startswith(start))


def _candidates(keys: QuerySet[ApiKey], word: str) -> QuerySet[ApiKey]:
    if prefix := prefix_of(word):  # a whole key, as one finds it where it has leaked
        return keys.filter(Q(prefix=prefix) | Q(old_prefix=prefix))
    wanted = Q(name=word) | Q(pk=word)
    start = word.rstrip("…")
    if start.startswith(START) and len(start) > len(START):
        wanted |= Q(prefix__startswith=start) | Q(old_prefix__startswith=start)
    return keys.filter(wanted)


def _shown(word: str) -> str:
    """Return what was asked for, but never a whole key."""
    longest = len(START) + 8
    return repr(word[:longest] + "…" if word.startswith(START) and len(word) > longest else word)


def _told(key: ApiKey) -> str:
    used = f"last used {key.last_used_at:%Y-%m-%d}" if key.last_used_at else "never used"
    return f"{key.prefix}  {key.name}  ({key.organization}, made {key.created_at:%Y-%m-%d}, {used})"
