"""Tables for the terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.live.columns import GAP, LEAST, Column, lines_of, width_of

FIXED = Column("id", ["msg_1", "msg_22"])
NAME = Column("name", ["a name that is long", "b"], cut=True)
NOTE = Column("note", ["a note that is long", "c"], cut=True)
COUNT = Column("count", ["1", "200"], right=True)


def test_it_works() -> None:
    lines, left_out = lines_of([FIXED, NAME, COUNT], None)
    assert lines == [
        "ID      NAME                 COUNT",
        "msg_1   a name that is long      1",
        "msg_22  b                      200",
    ]
    assert left_out == []


def test_where_there_is_little_room_some_are_cut() -> None:
    lines, left_out = lines_of([FIXED, NAME, COUNT], 28)
    assert lines[1] == "msg_1   a name that …      1"
    assert left_out == []


def test_where_there_is_less_the_last_are_left_out() -> None:
    lines, left_out = lines_of([FIXED, NAME, NOTE], 25)
    assert left_out == ["note"]
    assert max(map(len, lines)) <= 25


def test_what_may_not_be_cut_is_whole_in_the_narrowest() -> None:
    lines, left_out = lines_of([FIXED, NAME], 3)
    assert lines == ["ID", "msg_1", "msg_22"]
    assert left_out == ["name"]


@given(st.lists(st.integers(1, 40), min_size=1, max_size=5), st.integers(0, 120))
def test_no_line_is_wider_than_the_terminal(sizes: list[int], room: int) -> None:
    columns = [FIXED, *(Column("x", ["y" * size], cut=True) for size in sizes)]
    columns[0] = Column("id", ["msg_1"])
    width = len("msg_1") + room
    lines, left_out = lines_of(columns, width)
    assert max(map(len, lines)) <= width
    if room >= sum(len(GAP) + min(size, LEAST) for size in sizes):
        assert left_out == []


@pytest.mark.parametrize(("columns", "width"), [("80", 80), ("", None), ("0", None), ("wide", None)])
def test_a_pipe_has_the_width_that_it_is_told(monkeypatch: pytest.MonkeyPatch, columns: str, width: int | None) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert width_of(terminal=False) == width
