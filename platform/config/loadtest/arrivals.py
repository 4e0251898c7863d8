"""When requests arrive in an open loop: whatever the server does meanwhile."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Closed:
    """So many clients, each of which asks again as soon as it was answered."""

    concurrency: int


@dataclass(frozen=True, slots=True)
class Poisson:
    """Independent clients: so many requests a second on average."""

    rate: float


@dataclass(frozen=True, slots=True)
class Ramp:
    """The same with a rate that goes evenly from one value to another over the test's duration."""

    first: float
    last: float

    def rate_at(self, share: float) -> float:
        """Return the rate after a share of the duration."""
        return self.first + (self.last - self.first) * share


Load = Closed | Poisson | Ramp


def arrivals(load: Poisson | Ramp, rng: random.Random, *, duration_s: float | None) -> Iterator[float]:
    """Yield the times, in s from the start, at which requests arrive; up to the duration, or for ever."""
    first, last = (load.rate, load.rate) if isinstance(load, Poisson) else (load.first, load.last)
    assert duration_s is not None or first == last, "a ramp has an end"
    slope = 0.0 if duration_s is None else (last - first) / duration_s
    expected = 0.0  # arrivals so far, were they not drawn
    while True:
        expected += rng.expovariate(1.0)
        # The time t at which first * t + slope * t² / 2 arrivals are expected, in a form that takes slope 0.
        below = first * first + 2 * slope * expected
        if below < 0:
            return  # a ramp down ends before so many
        t = 2 * expected / (first + math.sqrt(below))
        if duration_s is not None and t > duration_s:
            return
        yield t
