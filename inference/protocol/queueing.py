"""A request's place in its model's queue: a score of when it came, less its class's head start, that tells its class.

Scores are whole milliseconds; the class is in what is behind the point, so that what waits can be counted by class
without a look at the requests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from inference.protocol.outcomes import PRIORITY_HEAD_START_S, Priority

CLASSES: tuple[Priority, ...] = ("standard", "priority", "batch")  # in quarters of a millisecond
MARKS: Mapping[Priority, float] = {name: place / 4 for place, name in enumerate(CLASSES)}


def head_start_ms(priority: Priority) -> float:
    """Return what a request of this class is ahead of its arrival, with its mark."""
    return PRIORITY_HEAD_START_S[priority] * 1000 - MARKS[priority]


def depths(reply: Sequence[int]) -> dict[Priority, int]:
    """Read what `scripts.QUEUED` found: how many requests of each class wait."""
    return dict(zip(CLASSES, reply, strict=True))
