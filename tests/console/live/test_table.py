"""The table as pages follow it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from django.contrib.staticfiles import finders
from hypothesis import given
from hypothesis import strategies as st

from console.live.rows import SHAPE, Row
from console.live.table import Message, Table, decode
from tests.console.live.rows import a_row


def data_of(message: Message) -> dict[str, Any]:
    """What a browser reads of a message."""
    event, data = message.frame.decode().rstrip("\n").split("\n")
    assert event == f"event: {message.kind}"
    return dict(json.loads(data.removeprefix("data: ")))


class Page:
    """Does what the page's script does."""

    def __init__(self) -> None:
        self.rows: dict[int, Row] = {}

    def take(self, message: Message) -> None:
        data = data_of(message)
        if message.kind == "whole":
            self.rows = {}
        for number in data.get("gone", ()):
            del self.rows[number]
        self.rows |= {number: Row(*values) for number, *values in data["rows"]}
        pairs = iter(data.get("tokens", ()))
        for number, tokens in zip(pairs, pairs, strict=True):
            self.rows[number] = self.rows[number]._replace(tokens=tokens)


def test_it_works() -> None:
    table = Table(100)
    first = table.update([a_row(), a_row("msg_2")], total=2, queues={}, at_ms=5000.4)
    assert (first.kind, first.number) == ("changes", 101)
    assert data_of(first) == {
        "at": 5000, "total": 2, "queues": {}, "rows": [[1, *a_row()], [2, *a_row("msg_2")]], "tokens": [], "gone": [],
    }  # fmt: skip
    second = table.update([a_row(tokens=12)], total=1, queues={}, at_ms=6000)
    assert data_of(second) == {"at": 6000, "total": 1, "queues": {}, "rows": [], "tokens": [1, 12], "gone": [2]}
    assert second.number == 102


def test_what_did_not_change_is_not_told() -> None:
    table = Table(0)
    table.update([a_row()], total=1, queues={}, at_ms=1)
    assert data_of(table.update([a_row()], total=1, queues={}, at_ms=2)) == {
        "at": 2, "total": 1, "queues": {}, "rows": [], "tokens": [], "gone": [],
    }  # fmt: skip


def test_the_whole_has_the_number_of_what_came_last() -> None:
    table = Table(7)
    changes = table.update([a_row()], total=9, queues={}, at_ms=1)
    whole = table.whole()
    assert (whole.kind, whole.number) == ("whole", changes.number)
    assert data_of(whole) == {"at": 1, "total": 9, "queues": {}, "shape": SHAPE, "rows": [[1, *a_row()]]}


def test_the_script_of_the_page_has_the_same_shape() -> None:
    script = finders.find("console/streams/rows.js")
    assert script is not None
    text = Path(str(script)).read_text()
    fields = re.search(r"const FIELDS = \[(.*?)\];", text, re.DOTALL)
    number = re.search(r"const SHAPE = `(\d+):\$\{FIELDS\}`", text)
    assert fields is not None
    assert number is not None
    names = re.findall(r'"(\w+)"', fields[1])
    assert f"{number[1]}:{','.join(names)}" == SHAPE


def test_a_message_survives_its_way() -> None:
    message = Table(7).update([a_row(key="ключ\nname")], total=1, queues={}, at_ms=1)
    assert decode(message.encode()) == message


@given(st.lists(st.dictionaries(st.sampled_from("abcdef"), st.tuples(st.integers(0, 3), st.sampled_from(["g", "h"])))))
def test_a_page_that_follows_has_what_the_server_has(turns: list[dict[str, tuple[int, str]]]) -> None:
    table, early, late = Table(0), Page(), Page()
    for i, turn in enumerate(turns):
        rows = [a_row(name, tokens=tokens, gateway=gateway) for name, (tokens, gateway) in turn.items()]
        changes = table.update(rows, total=len(rows), queues={}, at_ms=i)
        early.take(changes)
        if i >= 2:
            late.take(table.whole() if i == 2 else changes)
            assert late.rows == early.rows
        assert sorted(early.rows.values()) == sorted(rows)
