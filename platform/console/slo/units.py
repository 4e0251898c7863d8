"""How numbers are written: short, with their unit."""

from __future__ import annotations

from typing import Literal

Unit = Literal["ms", "share", "per_s", "count", "gib", "times"]

_FACTORS: dict[Unit, float] = {"share": 100}
_SUFFIXES: dict[Unit, str] = {"ms": " ms", "share": " %", "per_s": "/s", "gib": " GiB", "times": "x"}
_IN_HEADINGS: dict[Unit, str] = {"ms": ", ms", "share": ", %", "per_s": ", 1/s", "gib": ", GiB", "times": ", x"}


def text(value: float | None, unit: Unit) -> str:
    """Return a number with its unit; long times are in seconds."""
    if value is None:
        return "-"
    if unit == "ms" and value >= 10_000:
        return f"{_digits(value / 1000)} s"
    return f"{cell(value, unit)}{_SUFFIXES.get(unit, '')}"


def cell(value: float | None, unit: Unit) -> str:
    """Return a number for a column whose heading has the unit."""
    return "-" if value is None else _digits(value * _FACTORS.get(unit, 1))


def heading(label: str, unit: Unit) -> str:
    """Return the heading of a column of `cell`s."""
    return label + _IN_HEADINGS.get(unit, "")


def precise(share: float | None) -> str:
    """Return a share with the digits that an error budget is made of."""
    return "-" if share is None else f"{100 * share:.3f} %"


def target(value: float, unit: Unit) -> str:
    """Return a target with all its digits: 99.9 % is not 100 %."""
    return f"{value * _FACTORS.get(unit, 1):,.6g}{_SUFFIXES.get(unit, '')}"


def _digits(value: float) -> str:
    """Return a number with three digits that count, and all those before the point."""
    size = abs(value)
    if size >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.3g}" if size >= 1 else f"{value:.2g}"
