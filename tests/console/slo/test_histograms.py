"""Bins of a distribution."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.slo.histograms import FACTOR, LEAST, MOST, bins_of
from inference.protocol.sketches import RELATIVE_ERROR, Sketch
from tests.console.slo.pictures import a_sketch


def test_it_works() -> None:
    bins = bins_of(a_sketch(10.5, 10.6, 105))
    assert sum(bins.counts) == 3
    assert bins.counts[bins.starts.index(10)] == 2
    assert bins.counts[-1] == 1
    assert len(bins.counts) == 21, "the empty ones between are there, too"


def test_nothing() -> None:
    bins = bins_of(Sketch())
    assert (bins.starts, bins.counts) == ([], [])


def test_a_single_bin_has_others_around_it() -> None:
    bins = bins_of(a_sketch(10.5))
    assert len(bins.counts) == LEAST
    assert 0 < bins.counts.index(1) < LEAST - 1


def test_what_is_far_too_short_is_in_the_first() -> None:
    bins = bins_of(a_sketch(0.000001, 60_000))
    assert len(bins.counts) == MOST
    assert bins.counts[0] == bins.counts[-1] == 1


@given(st.lists(st.floats(1, 10_000), min_size=1, max_size=50))
def test_each_is_in_its_bin(times: list[float]) -> None:
    bins = bins_of(a_sketch(*times))
    assert sum(bins.counts) == len(times)
    assert bins.starts[0] <= min(times) * (1 + RELATIVE_ERROR)
    assert bins.starts[-1] * FACTOR >= max(times) * (1 - RELATIVE_ERROR)
    assert all(later == pytest.approx(earlier * FACTOR) for earlier, later in pairwise(bins.starts))
