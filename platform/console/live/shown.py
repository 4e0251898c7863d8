"""Rows as people read them. The page's script writes the same (`static/console/streams/rows.js`)."""

from __future__ import annotations

from dataclasses import dataclass

from console.durations import short
from console.live.listing import COLUMNS, Column, rate
from console.live.rows import STATES, Row
from console.live.streams import State


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of the table."""

    column: Column
    text: str


@dataclass(frozen=True, slots=True)
class ShownRow:
    """A row of the table; `state` is for its colour."""

    id: str
    state: str
    cells: list[Cell]


BLANK = ShownRow("", "", [Cell(column, "") for column in COLUMNS])  # for scripts to fill


def shown_row(row: Row, now_ms: float, place: tuple[int, int] | None = None) -> ShownRow:
    """Return a row in words and numbers; `place` is that in its queue, and of how many."""
    pace = rate(row, now_ms)
    texts = {
        "state": state_text(row.state, held=row.held, prefilled=row.prefilled, place=place),
        "tokens": f"{row.tokens:,}",
        "rate": "" if pace is None else f"{pace:,.1f}",
        "age": age_text((now_ms - row.came) / 1000),
        "ttft": "" if row.ttft < 0 else ms_text(row.ttft),
        "unsent": f"{row.unsent:,}" if row.gateway else "",
        "attempt": str(row.attempt or ""),
    }
    cells = [
        Cell(column, texts[column.name] if column.name in texts else getattr(row, column.name)) for column in COLUMNS
    ]
    return ShownRow(row.id, row.state, cells)


def state_text(state: State, *, held: int = 0, prefilled: int = -1, place: tuple[int, int] | None = None) -> str:
    """Return a state in words: with the tokens that are held, the percents of the prompt, the place of how many."""
    if state == "held":
        return f"{STATES[state]} ({held:,})"
    if state == "prefill" and prefilled >= 0:
        return f"{STATES[state]} {prefilled} %"
    if state == "queued" and place:
        return f"{STATES[state]}, {ordinal(place[0])} of {max(place):,}"
    return STATES[state]


def ordinal(number: int) -> str:
    """Return a place: 1st, 2nd, 13th."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{ending}"


def age_text(seconds: float) -> str:
    """Return how long something has lasted."""
    return f"{max(0.0, seconds):.1f} s" if seconds < 10 else short(seconds)


def ms_text(ms: float) -> str:
    """Return a short time."""
    return f"{ms:.0f} ms" if ms < 1000 else f"{ms / 1000:.1f} s"
