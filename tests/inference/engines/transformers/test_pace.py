"""How much prefill a decode step carries."""

from __future__ import annotations

import sys

import pytest

from inference.engines.transformers.pace import TARGET_S, Pace


def step_s(num_prefill: int, num_decodes: int = 4) -> float:
    """Return the time of a step on some slow machine."""
    return 0.02 + 0.004 * num_decodes + (0.03 + 0.001 * num_prefill if num_prefill else 0)


def test_anything_goes_until_something_is_known() -> None:
    pace = Pace(least=16)
    assert pace.allowance == sys.maxsize
    pace.note([1, 1], 0.05)
    assert pace.allowance == sys.maxsize


def test_it_comes_to_the_target() -> None:
    pace = Pace(least=16)
    pace.note([512], step_s(512, 0))
    for _ in range(30):
        pace.note([1] * 4, step_s(0))
        pace.note([1] * 4 + [pace.allowance], step_s(pace.allowance))
    assert step_s(pace.allowance) - step_s(0) == pytest.approx(TARGET_S, rel=0.1)


def test_a_slow_machine_still_gets_on() -> None:
    pace = Pace(least=16)
    pace.note([512], 60.0)
    assert pace.allowance == 16


def test_one_odd_step_is_not_believed_at_once() -> None:
    pace = Pace(least=16)
    for _ in range(10):
        pace.note([100], 0.1)
    pace.note([100], 1.0)
    assert 10 < pace.allowance < 60


def test_where_steps_are_slow_prefill_may_double_them() -> None:
    pace = Pace(least=16)
    pace.note([100], 0.5)
    pace.note([1] * 8, 10 * TARGET_S)
    assert pace.allowance == int(10 * TARGET_S / 0.005)
