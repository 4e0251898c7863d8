"""The table of objectives, and how what was measured stands to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from inference.protocol.minutes import BAD, GOOD
from inference.protocol.sketches import Sketch
from slo.picture import Objective, Standing
from slo.sums import Sums

AVAILABILITY = 0.999
NEARLY = 0.9  # of what is allowed: from here on a target is close


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One objective. Times in ms; what is `measured` has to be below the target, or not below where more is better."""

    name: str
    unit: Literal["ms", "share"]
    target: float
    measured: Callable[[Sums], float | None]
    more_is_better: bool = False

    def judge(self, sums: Sums) -> Objective:
        """Return how a window's sums stand to it."""
        value = self.measured(sums)
        return Objective(
            name=self.name, unit=self.unit, target=self.target, value=value, standing=self._standing(value)
        )

    def _standing(self, value: float | None) -> Standing:
        if value is None:
            return "unknown"
        if self.more_is_better:
            return _standing((1 - value) / (1 - self.target), misses=value < self.target)
        return _standing(value / self.target, misses=value >= self.target)


def share_bad(sums: Sums) -> float | None:
    """Return the share of bad answers in those that are of account, None where there are none."""
    bad = sum(count for part, count in sums.answers.items() if part.startswith(BAD))
    total = bad + sums.answers.get(GOOD, 0)
    return bad / total if total else None


def availability(sums: Sums) -> float | None:
    """Return the share of good answers in those that are of account, None where there are none."""
    bad = share_bad(sums)
    return None if bad is None else 1 - bad


def _standing(used: float, *, misses: bool) -> Standing:
    return "missed" if misses else "close" if used > NEARLY else "met"


def _quantile(kind: str, q: float) -> Callable[[Sums], float | None]:
    def measured(sums: Sums) -> float | None:
        seconds = Sketch(getattr(sums, kind)).quantile(q)
        return None if seconds is None else seconds * 1000

    return measured


OBJECTIVES = (
    Row(name="TTFT p50", unit="ms", target=100, measured=_quantile("ttft", 0.5)),
    Row(name="TTFT p99", unit="ms", target=500, measured=_quantile("ttft", 0.99)),
    Row(name="TPOT p50", unit="ms", target=20, measured=_quantile("tpot", 0.5)),  # of streams, each by its mean
    Row(name="TBT p99", unit="ms", target=100, measured=_quantile("tbt", 0.99)),
    Row(name="Availability", unit="share", target=AVAILABILITY, measured=availability, more_is_better=True),
    Row(name="Errors", unit="share", target=0.001, measured=share_bad),
)
