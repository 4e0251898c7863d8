"""Tables for the terminal, as wide as that is."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass

GAP = "  "
LEAST = 8  # a cell that is cut to less says nothing


@dataclass(frozen=True, slots=True)
class Column:
    """One column. What may be `cut` gives way where there is little room: the later ones are left out first."""

    heading: str
    cells: Sequence[str]
    right: bool = False
    cut: bool = False

    @property
    def width(self) -> int:
        return max(map(len, (self.heading, *self.cells)))


def width_of(*, terminal: bool) -> int | None:
    """Return the columns that our terminal has, None where there is none (a pipe, a file) and nobody says."""
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and int(given) > 0:
        return int(given)
    return shutil.get_terminal_size().columns if terminal else None


def lines_of(columns: Sequence[Column], width: int | None) -> tuple[list[str], list[str]]:
    """Return the lines of a table, and the headings of the columns for which there was no room."""
    widths = _widths(columns, width)
    shown = [(column, widths[i]) for i, column in enumerate(columns) if i in widths]
    heads = [_cell(column.heading.upper(), size, right=column.right) for column, size in shown]
    rows = zip(
        *([_cell(cell, size, right=column.right) for cell in column.cells] for column, size in shown), strict=True
    )
    lines = [GAP.join(row).rstrip() for row in (heads, *rows)]
    return lines, [column.heading for i, column in enumerate(columns) if i not in widths]


def _widths(columns: Sequence[Column], width: int | None) -> dict[int, int]:
    """Return the widths of the columns that are shown."""
    whole = {i: column.width for i, column in enumerate(columns)}
    if width is None:
        return whole
    yielding = [i for i, column in enumerate(columns) if column.cut]
    while True:
        fixed = sum(whole[i] for i in whole if i not in yielding) + len(GAP) * (len(whole) - 1)
        room = width - fixed
        if not yielding or room >= sum(min(whole[i], LEAST) for i in yielding):
            return whole | _shared(room, {i: whole[i] for i in yielding})
        del whole[yielding.pop()]


def _shared(room: int, wanted: dict[int, int]) -> dict[int, int]:
    """Share room out: who wants less than an even part gets all of it, and leaves the rest to the others."""
    got: dict[int, int] = {}
    for left, i in zip(range(len(wanted), 0, -1), sorted(wanted, key=lambda i: wanted[i]), strict=True):
        got[i] = min(wanted[i], room // left)
        room -= got[i]
    return got


def _cell(text: str, width: int, *, right: bool) -> str:
    text = text if len(text) <= width else text[: width - 1] + "…"
    return text.rjust(width) if right else text.ljust(width)
