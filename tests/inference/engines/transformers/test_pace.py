"""How much prefill a decode step carries."""

from __future__ import annotations

import math
import random
import sys

import pytest

from inference.engines.transformers.pace import MOST_S, TARGET_S, TTFT_S, Pace


def step_s(num_prefill: int, num_decodes: int) -> float:
    """Return the time of a step on some machine."""
    return 0.01 + 0.001 * num_prefill + 0.002 * num_decodes


def pace_after(num_steps: int, *, noise: float = 0.0, factor: float = 1.0, most_s: float = math.inf) -> Pace:
    """Return a pace that has seen steps of all kinds."""
    pace, chance = Pace(least=16, most_s=most_s), random.Random(5)
    for _ in range(num_steps):
        num_prefill, num_decodes = chance.choice([0, 40, 200]), chance.randint(0, 16)
        sizes = [1] * num_decodes + [num_prefill] * (num_prefill > 0)
        if sizes:
            pace.note(sizes, factor * step_s(num_prefill, num_decodes) * chance.gauss(1, noise))
    return pace


def test_it_works() -> None:
    pace = pace_after(200)

    assert pace.seconds(100, 8) == pytest.approx(step_s(100, 8), rel=0.05)
    assert step_s(pace.allowance(8), 8) == pytest.approx(TARGET_S, rel=0.05)


def test_anything_goes_until_something_is_known() -> None:
    pace = Pace(least=16)
    assert pace.allowance(4) == sys.maxsize
    pace.note([1, 1], 0.05)
    assert pace.allowance(4) == sys.maxsize


def test_anything_goes_while_nobody_decodes() -> None:
    assert pace_after(50).allowance(0) == sys.maxsize


def test_nor_then_more_than_a_step_may_take() -> None:
    pace = pace_after(200, most_s=0.3)

    assert step_s(pace.allowance(0), 0) == pytest.approx(0.3, rel=0.1)
    assert step_s(pace.allowance(8, 1000.0), 8) == pytest.approx(0.3, rel=0.1), "however late somebody is"


@pytest.mark.parametrize("slowness", [1, 10, 100])
def test_of_a_first_small_step_it_learns_enough_to_dare_a_larger_one(slowness: float) -> None:
    pace = Pace(least=16, most_s=2.5)
    size = 16
    pace.note([size], slowness * step_s(size, 0))
    for _ in range(3):
        size = min(8 * size, pace.allowance(0), 512)
        assert size == 16 or slowness * step_s(size, 0) < 10
        pace.note([size], slowness * step_s(size, 0))

    assert size == 512 or slowness * step_s(size, 0) < 2.6 or size == 16


def test_what_is_larger_than_all_before_is_believed_at_once() -> None:
    pace = Pace(least=16)
    pace.note([16], step_s(16, 0))
    pace.note([512], 0.6)

    assert pace.seconds(512, 0) == pytest.approx(0.6)


def test_more_that_decode_leave_less() -> None:
    pace = pace_after(200)

    assert pace.allowance(4) > pace.allowance(16) > 16


def test_it_does_not_lay_to_prefill_what_decoding_costs() -> None:
    pace = Pace(least=16)
    pace.note([38], step_s(38, 0))
    for num_decodes in range(1, 32):  # never a step that only decodes
        pace.note([1] * num_decodes + [38], step_s(38, num_decodes))

    assert pace.prefill_token_s == pytest.approx(0.001, rel=0.3)


def test_a_slow_machine_still_gets_on() -> None:
    assert pace_after(50, factor=100).allowance(4) == 16


def test_one_odd_step_is_not_believed_at_once() -> None:
    pace = pace_after(100)
    before = pace.allowance(4)
    pace.note([1] * 4 + [100], 10 * step_s(100, 4))

    assert before / 6 < pace.allowance(4) < before


def test_noise_does_not_mislead_it() -> None:
    assert pace_after(300, noise=0.1).seconds(60, 8) == pytest.approx(step_s(60, 8), rel=0.2)


def test_while_somebody_is_late_steps_are_longer_by_as_much() -> None:
    pace = pace_after(200)

    assert step_s(pace.allowance(8, 2.0), 8) == pytest.approx(2 * TARGET_S, rel=0.05)
    assert step_s(pace.allowance(8, 1000.0), 8) == pytest.approx(MOST_S, rel=0.05)


def test_a_long_prompt_is_late_later() -> None:
    pace = pace_after(200)

    assert pace.lateness(2 * TTFT_S, 1) == pytest.approx(2, rel=0.05)
    assert pace.lateness(2 * TTFT_S, 4000) < 0.2
