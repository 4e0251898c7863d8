"""Numbers as they are written."""

from __future__ import annotations

import pytest

from console.slo.units import Unit, cell, heading, precise, target, text


@pytest.mark.parametrize(
    ("value", "unit", "written"),
    [
        (54.321, "ms", "54.3 ms"),
        (0.0321, "ms", "0.032 ms"),
        (9876.5, "ms", "9,876 ms"),
        (12345.0, "ms", "12.3 s"),
        (0.9991, "share", "99.9 %"),
        (0.0, "share", "0 %"),
        (-16.64, "share", "-1,664 %"),
        (61.2345, "gib", "61.2 GiB"),
        (1234567, "count", "1,234,567"),
        (17.64, "times", "17.6x"),
        (431.5, "per_s", "432/s"),
        (None, "ms", "-"),
    ],
)
def test_it_works(value: float | None, unit: Unit, written: str) -> None:
    assert text(value, unit) == written


def test_cells_have_their_unit_in_the_heading() -> None:
    assert (heading("p50", "ms"), cell(1234.5, "ms")) == ("p50, ms", "1,234")
    assert (heading("errors", "share"), cell(0.00123, "share")) == ("errors, %", "0.12")
    assert (heading("streams", "count"), cell(None, "count")) == ("streams", "-")


def test_targets_and_budgets_keep_their_digits() -> None:
    assert (target(0.999, "share"), target(0.001, "share"), target(100, "ms")) == ("99.9 %", "0.1 %", "100 ms")
    assert (precise(0.99954), precise(None)) == ("99.954 %", "-")
