"""What a chart shows, apart from how it is drawn: as data for the script, and as a table for everybody."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from django.utils.safestring import SafeString, mark_safe

from console.slo.units import Unit, cell, heading, target, text

Kind = Literal["lines", "stack", "histogram"]
UNKNOWN = "Nothing of this was measured in this window."


@dataclass(frozen=True, slots=True)
class Series:
    """A line, or a part of each bar; None where nothing is known, which is drawn as a gap."""

    label: str
    values: Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Mark:
    """A value that a chart has a line at."""

    label: str
    value: float
    is_target: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Series over `x`: over the beginnings of steps in s since the epoch, or, in a histogram, over the bins' in ms."""

    id: str
    title: str
    about: str = ""
    kind: Kind = "lines"
    unit: Unit
    x: Sequence[float]
    step: float  # from one `x` to the next: seconds, or in a histogram a factor
    series: Sequence[Series]
    marks: Sequence[Mark] = ()
    instead: str = UNKNOWN  # what stands in an empty chart's place

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to draw: nothing known, or nothing but zeros to stack."""
        values = (value for series in self.series for value in series.values)
        return not any(value is not None and (value or self.kind == "lines") for value in values)

    def data(self) -> dict[str, Any]:
        """Return what the script reads."""
        return {
            "id": self.id,
            "kind": self.kind,
            "unit": self.unit,
            "x": [_short(x) for x in self.x] if self.kind == "histogram" else list(self.x),
            "step": self.step,
            "empty": self.is_empty,
            "series": [{"label": s.label, "values": [_short(v) for v in s.values]} for s in self.series],
            "marks": [{"label": m.label, "value": _short(m.value), "target": m.is_target} for m in self.marks],
        }

    @property
    def columns(self) -> list[str]:
        """The heads of the table."""
        return ["from, ms" if self.kind == "histogram" else "UTC", *(heading(s.label, self.unit) for s in self.series)]

    @property
    def rows(self) -> SafeString:
        """The body of the table, without the rows that have nothing to tell."""
        return mark_safe("".join(self._rows()))  # nothing but digits

    @property
    def footnotes(self) -> list[tuple[str, str]]:
        """What the lines are at."""
        unit: Unit = "ms" if self.kind == "histogram" else self.unit
        return [(m.label, target(m.value, unit) if m.is_target else text(m.value, unit)) for m in self.marks]

    def _rows(self) -> Iterator[str]:
        for x, *values in zip(self.x, *(series.values for series in self.series), strict=True):
            if any(value is not None and (value or self.kind != "histogram") for value in values):
                name = cell(x, "ms") if self.kind == "histogram" else f"{datetime.fromtimestamp(x, UTC):%m-%d %H:%M}"
                cells = "".join(f"<td>{cell(value, self.unit)}" for value in values)
                yield f"<tr><th scope=row>{name}{cells}\n"


def _short(value: float | None) -> float | int | None:
    """Return a number with as many digits as anyone can see."""
    if value is None:
        return None
    rounded = float(f"{value:.4g}")
    return int(rounded) if rounded.is_integer() else rounded
