"""Rows in words."""

from __future__ import annotations

import pytest

from console.live.shown import age_text, ms_text, ordinal, shown_row
from tests.console.live.rows import a_row


def texts(now_ms: float, **changes: object) -> dict[str, str]:
    return {cell.column.name: cell.text for cell in shown_row(a_row(**changes), now_ms).cells}  # type: ignore[arg-type]


def test_it_works() -> None:
    assert texts(3100, tokens=2468) == {
        "id": "msg_1", "key": "alice", "organization": "alpha", "model": "m", "worker": "w-1", "gateway": "g-1",
        "state": "decoding", "tokens": "2,468", "rate": "1,234.0", "age": "2.1 s", "ttft": "100 ms", "unsent": "0",
        "attempt": "1",
    }  # fmt: skip


def test_what_is_not_known_is_left_empty() -> None:
    shown = texts(3100, ttft=-1, gateway="", attempt=0)
    assert (shown["rate"], shown["ttft"], shown["unsent"], shown["attempt"]) == ("", "", "", "")


def test_what_safety_holds_has_its_number() -> None:
    assert texts(3100, state="held", held=12)["state"] == "held by safety (12)"


def test_how_far_a_prompt_is_is_told_where_it_is_known() -> None:
    assert texts(3100, state="prefill", prefilled=40)["state"] == "prefill 40 %"
    assert texts(3100, state="prefill")["state"] == "prefill"


def test_one_that_waits_has_its_place() -> None:
    row = a_row(state="queued", turn=5)
    assert shown_row(row, 3100, (3, 1200)).cells[6].text == "queued, 3rd of 1,200"
    assert shown_row(row._replace(state="cancelling"), 3100, (3, 12)).cells[6].text == "cancelling"


@pytest.mark.parametrize(
    ("number", "text"),
    [(1, "1st"), (2, "2nd"), (3, "3rd"), (4, "4th"), (11, "11th"), (1013, "1,013th"), (101, "101st")],
)
def test_ordinals(number: int, text: str) -> None:
    assert ordinal(number) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(-1, "0.0 s"), (9.94, "9.9 s"), (42, "42 s"), (150, "2 min"), (8000, "2 h"), (200_000, "2 d")]
)
def test_ages(seconds: float, text: str) -> None:
    assert age_text(seconds) == text


def test_short_times() -> None:
    assert (ms_text(999), ms_text(1250)) == ("999 ms", "1.2 s")
