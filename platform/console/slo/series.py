"""Series for charts: what matters most by its own name, so that there are as many as one can tell apart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from console.slo.charts import Series
from inference.protocol.sketches import Sketch

MOST = 8  # as many as one can tell apart
QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}

Values = Sequence[float | None]


def stacked(values: Mapping[str, Values], most: int = MOST) -> list[Series]:
    """Return the largest by name and the others in one, which add up to all; the empty ones are left out."""
    names = sorted((name for name in values if any(values[name])), key=lambda name: (-_total(values[name]), name))
    if len(names) <= most:
        return [Series(name, values[name]) for name in names]
    own, others = names[: most - 1], names[most - 1 :]
    rest = [_sum(row) for row in zip(*(values[name] for name in others), strict=True)]
    return [*(Series(name, values[name]) for name in own), Series(f"{len(others)} others", rest)]


def highest(values: Mapping[str, Values], most: int = MOST) -> list[Series]:
    """Return those that rise highest."""
    names = sorted(values, key=lambda name: (-max((value or 0 for value in values[name]), default=0), name))[:most]
    return [Series(name, values[name]) for name in sorted(names)]


def together(values: Mapping[str, Values]) -> list[Series]:
    """Return the sum of several devices; none where that would say nothing new."""
    return [Series("all devices", [_sum(row) for row in zip(*values.values(), strict=True)])] if len(values) > 1 else []


def quantiles(sketches: Iterable[Sketch | None]) -> list[Series]:
    """Return each quantile over time, in ms."""
    rows = [sketch.quantiles(QUANTILES.values()) if sketch else [None] * len(QUANTILES) for sketch in sketches]
    return [Series(name, [_ms(row[place]) for row in rows]) for place, name in enumerate(QUANTILES)]


def shares(counts: Sequence[int], whole: Sequence[int]) -> Values:
    """Return counts as shares of what they are of; None where that is nothing."""
    return [count / of if of else None for count, of in zip(counts, whole, strict=True)]


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1000


def _total(values: Values) -> float:
    return sum(value for value in values if value is not None)


def _sum(row: Iterable[float | None]) -> float | None:
    known = [value for value in row if value is not None]
    return sum(known) if known else None
