"""Where the time of requests goes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from console.slo.stages import shares_of, stage_charts
from slo.picture import Picture
from tests.console.slo.pictures import a_picture, an_empty_picture


def a_picture_of(**stages: list[float | None]) -> Picture:
    steps = len(next(iter(stages.values())))
    return replace(an_empty_picture(steps), stages=stages, outcomes={"end_turn": [3, 1, 0][:steps]})


def test_it_works() -> None:
    before, whole = stage_charts(a_picture())
    assert (before.id, whole.id) == ("before", "whole")
    assert [s.label for s in before.series] == [
        "auth", "validation", "tokenizing", "admission", "enqueue", "queue", "prefill",
    ]  # fmt: skip
    assert [s.label for s in whole.series][-2:] == ["safety", "decode"]


def test_nothing_was_measured() -> None:
    assert all(chart.is_empty for chart in stage_charts(an_empty_picture()))
    assert shares_of(an_empty_picture()) == []


def test_checks_are_not_counted_twice() -> None:
    _, whole = stage_charts(a_picture_of(safety=[4.0, 9.0, None], decode=[10.0, 5.0, 7.0]))
    assert [s.values for s in whole.series] == [[4.0, 9.0, None], [6.0, 0.0, 7.0]]


def test_shares_weigh_steps_by_their_requests() -> None:
    queue, prefill, decode = shares_of(a_picture_of(queue=[10.0, 30.0], prefill=[45.0, 45.0], decode=[60.0, 0.0]))
    assert queue.mean_ms == 15
    assert [share.percent for share in (queue, prefill, decode)] == pytest.approx([100 / 7, 300 / 7, 300 / 7])
    assert [share.percent_before for share in (queue, prefill, decode)] == [25, 75, None]
    assert (queue.by, decode.by) == ("queue", "worker")


def test_a_stage_that_is_not_known_here_is_shown() -> None:
    (share,) = shares_of(a_picture_of(thinking=[1.0]))
    assert (share.stage, share.by, share.percent) == ("thinking", "", 100)
