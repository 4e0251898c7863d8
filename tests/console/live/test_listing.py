"""Searched, filtered, sorted, in pages."""

from __future__ import annotations

import pytest

from console.live.listing import COLUMNS, PAGE, Listing, listing, places, wish_of
from console.live.rows import Row
from tests.console.live.rows import a_row

NOW = 11_100
ROWS = [
    a_row("msg_1"),
    a_row("msg_2", key="bob", tokens=7, worker="w-2"),
    a_row("msg_3", key="charlie", organization="gamma", state="queued", worker="", ttft=-1, tokens=0, model="n"),
]


def ids(rows: list[Row], **query: str) -> list[str]:
    return [row.id for row in found(rows, **query).rows]


def found(rows: list[Row], **query: str) -> Listing:
    return listing(rows, wish_of(query), NOW)


def test_it_works() -> None:
    assert ids(ROWS) == ["msg_1", "msg_2", "msg_3"]
    assert found(ROWS).options == {
        "state": ["queued", "prefill", "decoding", "held", "slow", "resumable", "cancelling"],
        "model": ["m", "n"], "worker": ["w-1", "w-2"], "organization": ["alpha", "gamma"],
    }  # fmt: skip


@pytest.mark.parametrize("search", ["sg_2", "BOB", " bob "])
def test_search(search: str) -> None:
    assert ids(ROWS, q=search) == ["msg_2"]


def test_filters_add_up() -> None:
    assert ids(ROWS, organization="alpha") == ["msg_1", "msg_2"]
    assert ids(ROWS, organization="alpha", worker="w-2") == ["msg_2"]
    assert ids(ROWS, state="queued", q="alpha") == []


def test_what_was_chosen_stays_an_option() -> None:
    assert found(ROWS, worker="w-9").options["worker"] == ["w-1", "w-2", "w-9"]


def test_order() -> None:
    assert ids(ROWS, o="tokens") == ["msg_3", "msg_2", "msg_1"]
    assert ids(ROWS, o="-rate") == ["msg_1", "msg_2", "msg_3"]
    assert ids(ROWS, o="state")[0] == "msg_3"
    assert ids(ROWS, o="nonsense") == ids(ROWS)


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: column.name)
def test_each_column_sorts_both_ways(column: object) -> None:
    name = getattr(column, "name", "")
    rows = [*ROWS, a_row("msg_4", gateway="g-2", came=0, unsent=4, attempt=2)]
    assert sorted(ids(rows, o=name)) == sorted(ids(rows, o=f"-{name}")) == sorted(row.id for row in rows)
    assert name == "id" or ids(rows, o=name) != ids(rows, o=f"-{name}")


def test_places_count_in_each_queue() -> None:
    waiting = {"state": "queued", "tokens": 0}
    rows = [
        a_row("msg_1"), a_row("msg_2", turn=30, **waiting), a_row("msg_3", turn=20.25, **waiting),
        a_row("msg_4", turn=10, model="n", **waiting), a_row("msg_5", turn=30, **waiting),
    ]  # fmt: skip
    assert places(rows) == {"msg_3": 1, "msg_2": 2, "msg_5": 3, "msg_4": 1}


def test_pages() -> None:
    rows = [a_row(f"msg_{i:03}") for i in range(2 * PAGE + 5)]
    assert (found(rows).pages, found(rows).found, len(found(rows).rows)) == (3, 205, PAGE)
    assert ids(rows, page="2")[0] == "msg_100"
    assert len(ids(rows, page="99")) == 5, "past the last is the last"


@pytest.mark.parametrize("page", ["0", "-1", "x", "", "9" * 9, "²"])
def test_what_is_no_page_is_the_first(page: str) -> None:
    assert wish_of({"page": page}).page == 1
