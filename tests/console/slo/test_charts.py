"""Charts as data and as tables."""

from __future__ import annotations

from typing import Any

from console.slo.charts import Chart, Mark, Series

USUAL: dict[str, Any] = {"id": "c", "title": "C", "unit": "ms", "x": [1_767_261_600, 1_767_261_660], "step": 60}


def a_chart(*values: Any, **more: Any) -> Chart:
    return Chart(**USUAL | {"series": [Series(f"s{i}", each) for i, each in enumerate(values)]} | more)


def test_it_works() -> None:
    chart = a_chart([12.34567, None], marks=[Mark("target", 100)])
    assert chart.data() == {
        "id": "c", "kind": "lines", "unit": "ms", "x": [1_767_261_600, 1_767_261_660], "step": 60, "empty": False,
        "series": [{"label": "s0", "values": [12.35, None]}],
        "marks": [{"label": "target", "value": 100, "target": True}],
    }  # fmt: skip
    assert chart.columns == ["UTC", "s0, ms"]
    assert chart.footnotes == [("target", "100 ms")]


def test_the_table_leaves_out_what_is_not_known() -> None:
    assert a_chart([1.5, None]).rows == "<tr><th scope=row>01-01 10:00<td>1.5\n"
    assert a_chart([1.5, None], [None, 2000]).rows.count("<tr>") == 2
    assert "<td>-" in a_chart([1.5, None], [None, 2000]).rows


def test_the_table_of_a_histogram_leaves_out_empty_bins() -> None:
    chart = a_chart([0, 1234], kind="histogram", unit="count", x=[10.0, 11.22], step=1.122)
    assert chart.columns == ["from, ms", "s0"]
    assert chart.rows == "<tr><th scope=row>11.2<td>1,234\n"


def test_marks_of_a_histogram_are_times() -> None:
    chart = a_chart([1], kind="histogram", unit="count", x=[10.0], marks=[Mark("p50", 10.5, is_target=False)])
    assert chart.footnotes == [("p50", "10.5 ms")]


def test_what_is_empty() -> None:
    assert a_chart([None, None]).is_empty
    assert a_chart().is_empty
    assert not a_chart([0, None]).is_empty, "a line at zero"
    assert a_chart([0, None], kind="stack").is_empty
