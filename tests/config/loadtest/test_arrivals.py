from __future__ import annotations

import random
from itertools import islice, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.loadtest.arrivals import Poisson, Ramp, arrivals

rates = st.floats(0.1, 200)


def times(load: Poisson | Ramp, *, seed: int = 1, duration_s: float | None = 60.0) -> list[float]:
    return list(islice(arrivals(load, random.Random(seed), duration_s=duration_s), 20_000))


@given(rates, rates, st.integers(0, 100))
def test_times_rise_and_stay_within_the_duration(first: float, last: float, seed: int) -> None:
    got = times(Ramp(first, last), seed=seed, duration_s=10.0)

    assert got == sorted(got)
    assert all(0 < t <= 10 for t in got)


@given(rates, st.integers(0, 100))
def test_a_seed_decides_them(rate: float, seed: int) -> None:
    assert times(Poisson(rate), seed=seed, duration_s=5.0) == times(Poisson(rate), seed=seed, duration_s=5.0)


@given(rates)
def test_a_ramp_without_a_slope_is_poisson(rate: float) -> None:
    assert times(Ramp(rate, rate)) == pytest.approx(times(Poisson(rate)))


def test_poisson_keeps_its_rate_and_its_spread() -> None:
    got = times(Poisson(100), duration_s=100.0)
    gaps = [b - a for a, b in pairwise(got)]
    mean = sum(gaps) / len(gaps)
    deviation = (sum((gap - mean) ** 2 for gap in gaps) / len(gaps)) ** 0.5

    assert len(got) == pytest.approx(10_000, rel=0.05)
    assert deviation / mean == pytest.approx(1, rel=0.05)


@pytest.mark.parametrize(("first", "last", "early"), [(0, 100, 0.25), (100, 0, 0.75)])
def test_a_ramp_goes_from_one_rate_to_the_other(first: float, last: float, early: float) -> None:
    got = times(Ramp(first, last), duration_s=100.0)

    assert len(got) == pytest.approx(5_000, rel=0.06)
    assert sum(t < 50 for t in got) / len(got) == pytest.approx(early, abs=0.03)


def test_without_a_duration_they_never_end() -> None:
    assert len(times(Poisson(1), duration_s=None)) == 20_000


def test_the_rate_of_a_ramp() -> None:
    assert [Ramp(2, 10).rate_at(share) for share in (0, 0.5, 1)] == [2, 6, 10]
