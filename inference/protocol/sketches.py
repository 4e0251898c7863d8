"""Distributions of times that can be merged: counts in buckets as wide as their values are large (a DDSketch).

Bucket `i` holds what is above `FLOOR_S * GAMMA**(i - 1)` and up to `FLOOR_S * GAMMA**i`. Its value in between is within
`RELATIVE_ERROR` of all of them, and so is every quantile of the exact one, however many sketches were merged.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

RELATIVE_ERROR = 0.01
GAMMA = (1 + RELATIVE_ERROR) / (1 - RELATIVE_ERROR)
FLOOR_S = 1e-6  # what is less counts as this

_PER_LOG = 1 / math.log(GAMMA)
_SHIFT = -math.log(FLOOR_S) * _PER_LOG
_TO_VALUE = 2 / (1 + GAMMA)  # from a bucket's upper bound to what is as far from it, relatively, as from the lower


def index_of(seconds: float) -> int:
    """Return the bucket of a time in seconds."""
    return indexes_of((seconds,))[0]


def indexes_of(seconds: Iterable[float]) -> list[int]:
    """Return the buckets of many times, at a third of the price."""
    ceil, log = math.ceil, math.log
    return [ceil(log(one) * _PER_LOG + _SHIFT) if one > FLOOR_S else 0 for one in seconds]


def upper_bound(index: int) -> float:
    """Return the largest time of a bucket, in seconds; the one before ends where this one begins."""
    return FLOOR_S * GAMMA**index


def value_of(index: int) -> float:
    """Return the time that stands for all in a bucket, in seconds."""
    return upper_bound(index) * _TO_VALUE if index > 0 else FLOOR_S


class Sketch:
    """How often times were measured, by bucket."""

    __slots__ = ("counts",)

    def __init__(self, counts: Mapping[int, int] | None = None) -> None:
        """Begin with counts by bucket."""
        self.counts: dict[int, int] = dict(counts or {})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sketch) and self.counts == other.counts

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __repr__(self) -> str:
        return f"Sketch({self.counts})"

    def __bool__(self) -> bool:
        return bool(self.counts)

    def __iter__(self) -> Iterator[tuple[float, int]]:
        """Give each bucket's value, in seconds, and its count, the shortest first."""
        return ((value_of(index), count) for index, count in sorted(self.counts.items()))

    @property
    def count(self) -> int:
        """How many times were measured."""
        return sum(self.counts.values())

    @property
    def mean(self) -> float | None:
        """The mean in seconds, None where nothing was measured."""
        return sum(value * count for value, count in self) / self.count if self.counts else None

    def add(self, seconds: float, count: int = 1) -> None:
        """Add a measurement, or several of the same."""
        index = index_of(seconds)
        self.counts[index] = self.counts.get(index, 0) + count

    def merge(self, other: Sketch) -> None:
        """Add all that another one has."""
        merge_counts(self.counts, other.counts)

    def quantile(self, q: float) -> float | None:
        """Return what a share `q` of the measurements does not pass, in seconds; None where there are none."""
        return self.quantiles((q,))[0]

    def quantiles(self, qs: Iterable[float]) -> list[float | None]:
        """Return several quantiles, for the price of one."""
        ordered = sorted(self.counts.items())
        last = sum(count for _, count in ordered) - 1
        return [value_of(_index_at(ordered, math.floor(q * last))) if ordered else None for q in qs]

    def share_above(self, seconds: float) -> float | None:
        """Return the share of measurements, from 0 to 1, in buckets that are wholly above a time."""
        limit = index_of(seconds)
        above = sum(count for index, count in self.counts.items() if index > limit)
        return above / self.count if self.counts else None


def merge_counts(into: dict[int, int], counts: Mapping[int, int]) -> None:
    """Add counts by bucket to others."""
    get = into.get
    for index, count in counts.items():
        into[index] = get(index, 0) + count


def _index_at(ordered: list[tuple[int, int]], rank: int) -> int:
    passed = 0
    for index, count in ordered:
        passed += count
        if passed > rank:
            return index
    raise AssertionError("the rank is below the number of measurements")
