"""Wider steps."""

from __future__ import annotations

import pytest

from console.slo.steps import MOST, Steps, weighted_mean
from tests.console.slo.pictures import a_sketch, an_empty_picture

PAIRS = Steps(starts=[0, 120], step_s=120, width=2)


@pytest.mark.parametrize(("steps", "step_s", "found", "wide"), [
    (60, 60, 60, 60), (360, 60, 120, 180), (96, 900, 96, 900), (168, 3600, 84, 7200), (720, 3600, 120, 21600),
])  # fmt: skip
def test_it_works(steps: int, step_s: int, found: int, wide: int) -> None:
    reduced = Steps.of(an_empty_picture(steps, step_s))
    assert (len(reduced.starts), reduced.step_s) == (found, wide)
    assert len(reduced.starts) <= MOST


def test_counts_add_up() -> None:
    assert PAIRS.sums([1, 2, 3]) == [3, 3]


def test_distributions_merge_and_are_left_as_they_were() -> None:
    first, second = a_sketch(10), a_sketch(20, 30)
    assert PAIRS.merged([first, second, None]) == [a_sketch(10, 20, 30), None]
    assert (first, second) == (a_sketch(10), a_sketch(20, 30))


def test_means_are_of_what_is_known() -> None:
    assert PAIRS.means([1.0, None, None]) == [1.0, None]
    assert PAIRS.means([1.0, 4.0, 5.0], [2, 1, 0]) == [2.0, 5.0]


def test_without_any_weight_a_mean_is_a_plain_one() -> None:
    assert weighted_mean([1.0, 3.0, None], [0, 0, 7]) == 2.0
    assert weighted_mean([None], [1]) is None
