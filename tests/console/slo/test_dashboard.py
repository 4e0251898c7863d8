"""The charts of a picture."""

from __future__ import annotations

from dataclasses import replace

import pytest

from console.slo.charts import UNKNOWN, Chart
from console.slo.dashboard import Dashboard
from slo.picture import Answers
from tests.console.slo.pictures import a_picture, an_empty_picture

NAMES = ["ttft-histogram", "ttft-time", "tpot-histogram", "tpot-time", "tbt-histogram", "tbt-time", "errors", "burn",
         "outcomes", "triggers", "tokens", "active", "queued", "memory", "kv"]  # fmt: skip


def charts_of(picture: object) -> dict[str, Chart]:
    return {chart.id: chart for section in Dashboard(picture).sections() for chart in section.charts}  # type: ignore[arg-type]


def labels(chart: Chart) -> list[str]:
    return [series.label for series in chart.series]


def test_it_works() -> None:
    charts = charts_of(a_picture())
    assert list(charts) == NAMES
    assert not any(chart.is_empty for chart in charts.values())
    assert all(len(s.values) == len(chart.x) for chart in charts.values() for s in chart.series)


def test_nothing_was_measured() -> None:
    charts = charts_of(an_empty_picture())
    assert list(charts) == NAMES
    assert all(chart.is_empty and chart.instead == UNKNOWN for chart in charts.values())


def test_zero_is_not_nothing() -> None:
    """An operator is glad of no errors; that none are known says less."""
    answers = replace(an_empty_picture(2).answers, good=[3, 0], bad={"error": [0, 0]})
    charts = charts_of(replace(an_empty_picture(2), answers=answers, queued={"standard": [0.0, None]}))
    assert charts["errors"].is_empty
    assert charts["errors"].instead == "Each answer that counts was good."
    assert charts["queued"].instead == "Nothing waited."


@pytest.mark.parametrize("steps", [15, 360, 720])
def test_it_is_reduced(steps: int) -> None:
    assert all(len(chart.x) <= 360 for chart in charts_of(a_picture(steps)).values())


def test_times_have_their_targets() -> None:
    charts = charts_of(a_picture())
    assert [(m.label, m.value) for m in charts["ttft-time"].marks] == [("target p50", 100), ("target p99", 500)]
    marks = [(m.label, m.is_target) for m in charts["tbt-histogram"].marks]
    assert marks == [("p50", False), ("p95", False), ("p99", False), ("target p99", True)]


def test_what_is_not_known_is_a_gap() -> None:
    charts = charts_of(a_picture(gap=range(20, 26)))
    for name in ("ttft-time", "burn", "tokens", "active", "memory", "kv"):
        assert charts[name].series[0].values[22] is None, name


def test_error_rates_are_of_the_answers_that_count() -> None:
    answers = Answers(good=[9, 0], bad={"api_error": [1, 0], "timeout_error": [0, 0]}, left_out=[50, 1],
                      availability=0.9, error_budget_left=-99.0, burn_rate=100.0)  # fmt: skip
    charts = charts_of(replace(an_empty_picture(2), answers=answers))
    assert labels(charts["errors"]) == ["api_error"]
    assert charts["errors"].series[0].values == [0.1, None]
    assert charts["burn"].series[0].values == [pytest.approx(100), None]


def test_figures() -> None:
    (section,) = (each for each in Dashboard(a_picture()).sections() if each.figures)
    found = {figure.name: figure.value for figure in section.figures}
    assert found["Availability"].endswith(" %")
    assert found["Burn rate"].endswith("x")
    assert list(found)[-3:] == ["Good", "Bad", "Left out"]


def test_many_workers_are_not_all_drawn() -> None:
    charts = charts_of(a_picture(workers=40))
    assert labels(charts["tokens"])[:2] == ["messages that ended", "all devices"]
    assert all(len(chart.series) <= 8 for chart in charts.values())
    assert charts["tokens"].about == "By each device, and in all; the 6 highest of 40"
    assert charts["memory"].about == "In use, of 80 GiB; the 8 highest of 40"
    assert charts["kv"].about == "In use, of each device's; the 8 highest of 40"


def test_an_engine_without_memory_of_its_own() -> None:
    picture = a_picture()
    simulated = replace(picture.workers[0], device="", memory_total=0.0, kv_used=[None] * 60)
    charts = charts_of(replace(picture, workers=[simulated]))
    assert labels(charts["tokens"]) == ["messages that ended", "host-0"]
    assert charts["memory"].is_empty
    assert charts["kv"].is_empty


def test_memory_is_in_gib() -> None:
    chart = charts_of(a_picture())["memory"]
    assert chart.about == "In use, of 80 GiB"
    assert 60 < (chart.series[0].values[0] or 0) < 80
