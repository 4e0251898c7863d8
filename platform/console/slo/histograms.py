"""From the fine buckets of a sketch to the bins of a histogram, each wider than the one before by the same factor."""

from __future__ import annotations

import math
from dataclasses import dataclass

from inference.protocol.sketches import Sketch

PER_DECADE = 20
FACTOR = 10 ** (1 / PER_DECADE)
LEAST = 10  # bins, so that there is something around a single one
MOST = 120


@dataclass(frozen=True, slots=True)
class Bins:
    """Counts by bin; `starts` are in ms, and each bin ends where the next one begins."""

    starts: list[float]
    counts: list[int]


def bins_of(sketch: Sketch) -> Bins:
    """Return the bins of a distribution, the empty ones within it, too; what is too short for them is in the first."""
    if not sketch:
        return Bins([], [])
    placed = [(math.floor(math.log10(seconds * 1000) * PER_DECADE), count) for seconds, count in sketch]
    first, last = placed[0][0], placed[-1][0]
    missing = max(0, LEAST - (last - first + 1))
    first, last = first - missing // 2, last + (missing + 1) // 2
    first = max(first, last - MOST + 1)
    counts = [0] * (last - first + 1)
    for place, count in placed:
        counts[max(0, place - first)] += count
    return Bins([10 ** (place / PER_DECADE) for place in range(first, last + 1)], counts)
