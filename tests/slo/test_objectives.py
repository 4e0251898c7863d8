"""How what was measured stands to the targets."""

from __future__ import annotations

import pytest

from inference.protocol.sketches import Sketch
from slo.objectives import OBJECTIVES
from slo.picture import Standing
from slo.sums import Sums


@pytest.mark.parametrize(("ms", "standing"), [(60, "met"), (85, "met"), (95, "close"), (102, "missed")])
def test_a_time_is_near_its_target_from_nine_tenths_on(ms: float, standing: Standing) -> None:
    sketch = Sketch()
    sketch.add(ms / 1000)
    (row,) = [row for row in OBJECTIVES if row.name == "TTFT p50"]
    assert row.judge(Sums(ttft=sketch.counts)).standing == standing


@pytest.mark.parametrize(("bad", "standing"), [(0, "met"), (80, "met"), (95, "close"), (101, "missed")])
def test_availability_is_near_its_target_when_nine_tenths_of_the_budget_are_spent(bad: int, standing: Standing) -> None:
    answers = {"good": 100_000 - bad, "bad:api_error": bad - bad // 2, "bad:timeout_error": bad // 2, "left_out": 10**6}
    for name in ("Availability", "Errors"):
        (row,) = [row for row in OBJECTIVES if row.name == name]
        assert row.judge(Sums(answers=answers)).standing == standing


def test_what_was_not_measured_is_unknown() -> None:
    nothing = [row.judge(Sums(answers={"left_out": 5})) for row in OBJECTIVES]
    assert {(found.value, found.standing) for found in nothing} == {(None, "unknown")}
