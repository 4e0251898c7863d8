"""Callers that were found lately, so that a warm key costs no query, nor does one that we never issued.

What is remembered is known to be true for `FRESH_S` after the database was asked, and beyond that while somebody hears
of all changes (`heard`). While the database is away it is used for `STALE_S` more.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from accounts.callers import Caller

T = TypeVar("T")

FRESH_S = 0.9  # with the time that a query takes, a revoked key works for at most a second
CHECK_S = 60.0  # asked again, in the background, for changes that nobody told of
STALE_S = 600.0
UNKNOWN_S = 5.0
KEPT = 50_000  # of each kind; about 1 KB each


@dataclass(frozen=True, slots=True)
class Moment:
    """How much had been heard at a moment; `era` counts the times when something may have been missed."""

    changes: int
    era: int


@dataclass(frozen=True, slots=True)
class Known:
    """A caller that was found, and when."""

    caller: Caller
    asked_at: float
    era: int


class Callers:
    """Found callers by the digest of a key or by its id: no plain key stays in memory. All threads share one."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._known: OrderedDict[str, Known] = OrderedDict()
        self._unknown: OrderedDict[str, float] = OrderedDict()  # until when
        self._now = Moment(0, 0)
        self._heard_at = float("-inf")

    def look(self, name: str) -> Known | None:
        """Return what is remembered of a name."""
        return self._known.get(name)

    def is_unknown(self, name: str) -> bool:
        """Say whether the database knew nothing of a name a moment ago."""
        return self._clock() < self._unknown.get(name, 0.0)

    def is_fresh(self, known: Known) -> bool:
        """Say whether a caller is still as it was found."""
        now = self._clock()
        return now - known.asked_at < FRESH_S or (known.era == self._now.era and now - self._heard_at < FRESH_S)

    def is_due(self, known: Known) -> bool:
        """Say whether to ask again, though nothing is known to have changed."""
        return self._clock() - known.asked_at > CHECK_S

    def is_usable(self, known: Known) -> bool:
        """Say whether a caller will do while nobody can be asked."""
        confirmed_at = max(known.asked_at, self._heard_at) if known.era == self._now.era else known.asked_at
        return self._clock() - confirmed_at < STALE_S

    def moment(self) -> Moment:
        """Return the present moment: to be taken before the database is asked, and given to `learn`."""
        return self._now

    def learn(self, name: str, caller: Caller | None, *, since: Moment) -> None:
        """Remember an answer of the database, unless something changed since it was asked."""
        with self._lock:
            if caller is None:
                self._known.pop(name, None)
                _put(self._unknown, name, self._clock() + UNKNOWN_S)
            elif since == self._now:
                _put(self._known, name, Known(caller, self._clock(), since.era))

    def forget(self, organization: str, key: str = "") -> None:
        """Let go of a key, or of all keys of an organisation: something changed."""
        with self._lock:
            self._now = Moment(self._now.changes + 1, self._now.era)
            for name, known in list(self._known.items()):
                if known.caller.organization == organization and key in ("", known.caller.key):
                    del self._known[name]

    def heard(self) -> None:
        """Note that all changes up to now are known, and were told by `forget`."""
        self._heard_at = self._clock()

    def doubt(self) -> None:
        """Note that changes may have been missed: everything has to be asked again."""
        with self._lock:
            self._now = Moment(self._now.changes, self._now.era + 1)


def _put(kept: OrderedDict[str, T], name: str, value: T) -> None:
    kept[name] = value
    kept.move_to_end(name)
    while len(kept) > KEPT:
        kept.popitem(last=False)


CALLERS = Callers()
