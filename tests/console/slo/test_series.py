"""Which series a chart shows."""

from __future__ import annotations

from console.slo.charts import Series
from console.slo.series import highest, quantiles, shares, stacked, together
from tests.console.slo.pictures import a_sketch

MANY = {f"s{number}": [float(number), None] for number in range(12)}


def test_stacked() -> None:
    assert stacked({"a": [1, 2], "b": [4, 0], "none": [0, 0]}) == [Series("b", [4, 0]), Series("a", [1, 2])]


def test_stacked_adds_the_small_ones_up() -> None:
    series = stacked(MANY, most=4)
    assert [each.label for each in series] == ["s11", "s10", "s9", "8 others"]
    assert sum(each.values[0] or 0 for each in series) == sum(range(12))
    assert series[-1].values[1] is None


def test_highest() -> None:
    assert [each.label for each in highest(MANY, most=3)] == ["s10", "s11", "s9"]
    assert highest({}) == []


def test_together() -> None:
    assert together({"a": [1, None], "b": [2, None]}) == [Series("all devices", [3, None])]
    assert together({"a": [1]}) == []


def test_quantiles_have_gaps() -> None:
    p50, p95, p99 = quantiles([a_sketch(*range(1, 101)), None])
    assert (p50.label, p95.label, p99.label) == ("p50", "p95", "p99")
    assert abs((p99.values[0] or 0) - 99) < 1.5
    assert p50.values[1] is None


def test_shares() -> None:
    assert shares([1, 0], [4, 0]) == [0.25, None]
