"""Looking for patterns in texts that grow."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import compress
from types import MappingProxyType

from inference.safety.patterns.catalog import finders_for, members
from inference.safety.patterns.hits import Finder, Hit
from inference.safety.patterns.reading import Reading

_FORGET_FROM = 512  # characters that were read; forgetting copies the rest
_STEP = 2048  # characters that are read at once, to keep what is copied small


class PatternSet:
    """All that is looked for in a text. It never changes, and any number of scans share it."""

    def __init__(
        self,
        categories: Collection[str],
        blocklists: Mapping[str, Sequence[str]] = MappingProxyType({}),
        *,
        held: Collection[str] | None = None,
    ) -> None:
        """Take categories or groups of them, and operators' phrases by the names of their lists.

        `held` are those that `open_start` has to wait for, all unless it is given: what is only flagged need not hold
        text back.
        """
        self.finders: tuple[Finder, ...] = tuple(finders_for(categories, blocklists))
        self.held = members(categories if held is None else held, blocklists)

    def scan(self) -> PatternScan:
        """Begin a text."""
        return PatternScan(self.finders, self.held)

    def find(self, text: str) -> list[Hit]:
        """Return the hits of a whole text."""
        scan = self.scan()
        return scan.push(text) + scan.flush()


class PatternScan:
    """The search in one text. Hits come in the order of their starts; of those of one category none overlap.

    Before `open_start` nothing is part of a match that is still to be reported.
    """

    def __init__(self, finders: Sequence[Finder], held: Collection[str]) -> None:
        self._finders = finders
        self._held = held
        self._holding = [not finder.categories.isdisjoint(held) for finder in finders]
        self._reading = Reading(folding=any(finder.folded for finder in finders))
        self._open = [0] * len(finders)  # where each finder goes on
        self._waiting: list[Hit] = []  # certain ones, before which others may still be found
        self._ends: dict[str, int] = {}  # where the last hit of a category ended
        self.open_start = 0

    def push(self, text: str) -> list[Hit]:
        """Take more of the text; return the hits that are certain now."""
        if len(text) <= _STEP:
            return self._push(text) if text else []
        steps = (text[at : at + _STEP] for at in range(0, len(text), _STEP))
        return [hit for step in steps for hit in self._push(step)]

    def _push(self, text: str) -> list[Hit]:
        reading = self._reading
        reading.add(text)
        self._search(ended=False)
        first = min(self._open, default=len(reading.text))
        hits = self._take(reading.place(first)) if self._waiting else []
        self.open_start = reading.place(min(compress(self._open, self._holding), default=len(reading.text)))
        if self._waiting:
            held = (hit.start for hit in self._waiting if hit.category in self._held)
            self.open_start = min(self.open_start, min(held, default=self.open_start))
        if first > _FORGET_FROM:
            cut = reading.forget(first)
            self._open = [at - cut for at in self._open]
        return hits

    def flush(self) -> list[Hit]:
        """Return the last hits: the text has ended."""
        self._search(ended=True)
        self.open_start = self._reading.length
        return self._take(self.open_start)

    def _search(self, *, ended: bool) -> None:
        reading = self._reading
        for number, finder in enumerate(self._finders):
            text = reading.folded if finder.folded else reading.text
            found, self._open[number] = finder.search(text, self._open[number], ended)
            for start, end, category in found:
                self._waiting.append(
                    Hit(reading.place(start), max(reading.place(end), reading.place(end - 1) + 1), category)
                )

    def _take(self, until: int) -> list[Hit]:
        """Take the hits that begin before a place; what overlaps an earlier one of its category is none."""
        waiting = sorted(self._waiting, key=lambda hit: (hit.start, -hit.end, hit.category))
        self._waiting = [hit for hit in waiting if hit.start >= until]
        taken = []
        for hit in waiting[: len(waiting) - len(self._waiting)]:
            if hit.start >= self._ends.get(hit.category, 0):
                self._ends[hit.category] = hit.end
                taken.append(hit)
        return taken
