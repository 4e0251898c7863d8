"""Sketches of times: how exact they are, and that it does not matter how they are merged."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.protocol.sketches import FLOOR_S, RELATIVE_ERROR, Sketch, index_of, upper_bound, value_of

SLACK = 1e-9  # of floating point

times = st.floats(FLOOR_S, 1e5)
lists = st.lists(times, max_size=50)


def of(measured: list[float]) -> Sketch:
    sketch = Sketch()
    for seconds in measured:
        sketch.add(seconds)
    return sketch


def test_it_works() -> None:
    sketch = of([0.1] * 98 + [1.0, 2.0])

    assert sketch.count == 100
    assert sketch.quantile(0.5) == pytest.approx(0.1, rel=RELATIVE_ERROR)
    assert sketch.quantile(0.99) == pytest.approx(1.0, rel=RELATIVE_ERROR)
    assert sketch.quantile(1.0) == pytest.approx(2.0, rel=RELATIVE_ERROR)
    assert sketch.mean == pytest.approx(0.128, rel=RELATIVE_ERROR)
    assert sketch.share_above(0.5) == 0.02
    assert [count for _, count in sketch] == [98, 1, 1]


def test_an_empty_one_knows_nothing() -> None:
    assert not Sketch()
    assert Sketch().quantile(0.5) is Sketch().mean is Sketch().share_above(1.0) is None


@given(times)
def test_a_buckets_value_is_near_to_all_in_it(seconds: float) -> None:
    index = index_of(seconds)
    assert abs(value_of(index) - seconds) <= (RELATIVE_ERROR + SLACK) * seconds
    assert upper_bound(index - 1) * (1 - SLACK) <= seconds <= upper_bound(index) * (1 + SLACK)


@pytest.mark.parametrize("seconds", [0.0, -1.0, 1e-9, FLOOR_S])
def test_what_is_tiny_counts_as_the_floor(seconds: float) -> None:
    assert value_of(index_of(seconds)) == FLOOR_S


@given(st.lists(times, min_size=1, max_size=200), st.floats(0, 1))
def test_quantiles_are_near_to_the_exact_ones(measured: list[float], q: float) -> None:
    exact = sorted(measured)[math.floor(q * (len(measured) - 1))]
    assert of(measured).quantile(q) == pytest.approx(exact, rel=RELATIVE_ERROR + SLACK)


@given(lists, lists, lists)
def test_merging_is_measuring_all_in_any_order(one: list[float], two: list[float], three: list[float]) -> None:
    left, right = of(one), of(three)
    left.merge(of(two))
    left.merge(of(three))
    right.merge(of(one))
    right.merge(of(two))
    assert left == right == of(one + two + three)


def test_the_tail_of_many_is_as_exact() -> None:
    chance = random.Random(1)
    parts = [[chance.lognormvariate(-3, 1) for _ in range(10_000)] for _ in range(20)]
    merged = Sketch()
    for part in parts:
        merged.merge(of(part))
    exact = sorted(seconds for part in parts for seconds in part)
    for q in (0.5, 0.95, 0.99, 0.999):
        assert merged.quantile(q) == pytest.approx(exact[math.floor(q * (len(exact) - 1))], rel=RELATIVE_ERROR + SLACK)
