"""The grammar of a message's events."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.protocol.events import PING, MessageEvents, frame


def started() -> MessageEvents:
    events = MessageEvents()
    events.message_start(message_id="msg_1", model="m", input_tokens=3, retry_ms=2000)
    return events


def data_of(written: bytes) -> dict[str, Any]:
    (line,) = [line for line in written.decode("ascii").split("\n") if line.startswith("data: ")]
    body: dict[str, Any] = json.loads(line[6:])
    return body


def test_it_works() -> None:
    events = started()
    assert events.start_text().startswith(b"id: 2\nevent: content_block_start\n")
    assert events.text("Hello") == (
        b"id: 3\nevent: content_block_delta\n"
        b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hello"}}\n\n'
    )
    assert data_of(events.stop_block()) == {"type": "content_block_stop", "index": 0}
    end = data_of(events.message_delta(stop_reason="end_turn", usage={"output_tokens": 1}))
    assert end["delta"] == {"stop_reason": "end_turn", "stop_sequence": None}
    assert events.message_stop() == b'id: 6\nevent: message_stop\ndata: {"type":"message_stop"}\n\n'
    assert events.ended


def test_message_start_carries_the_only_retry() -> None:
    written = MessageEvents().message_start(message_id="msg_1", model="m", input_tokens=3, retry_ms=2100)
    assert written.startswith(b"retry: 2100\nid: 1\nevent: message_start\n")
    assert data_of(written)["message"]["usage"] == {"input_tokens": 3, "output_tokens": 0}


@given(st.text(min_size=1))
def test_any_text_is_one_ascii_line(text: str) -> None:
    events = started()
    events.start_text()
    written = events.text(text)
    assert written.isascii()
    assert written.count(b"\n") == 4
    assert b"\r" not in written
    assert data_of(written)["delta"]["text"] == text


def test_each_block_has_its_own_index() -> None:
    events = started()
    for index in range(2):
        events.start_text()
        assert data_of(events.text("x"))["index"] == index
        events.stop_block()


def test_it_goes_on_in_a_block_that_another_worker_began() -> None:
    events = MessageEvents(last_id=7, next_index=2, open_block="text")
    written = events.text("x")
    assert written.startswith(b"id: 8\n")
    assert data_of(written)["index"] == 1


def test_a_ping_is_no_frame_of_its_own_comment() -> None:
    assert PING == b': ping\nevent: ping\ndata: {"type":"ping"}\n\n'


def test_an_ephemeral_frame_has_no_id() -> None:
    assert frame("server_shutdown", {}) == b'event: server_shutdown\ndata: {"type":"server_shutdown"}\n\n'


def test_it_rejects_a_delta_without_a_block() -> None:
    with pytest.raises(AssertionError, match="open text block"):
        started().text("x")


def test_it_rejects_an_empty_delta() -> None:
    events = started()
    events.start_text()
    with pytest.raises(AssertionError, match="empty"):
        events.text("")


def test_it_rejects_a_second_open_block() -> None:
    events = started()
    events.start_text()
    with pytest.raises(AssertionError, match="still open"):
        events.start_tool_use(tool_id="toolu_1", name="f")


def test_it_rejects_json_in_a_text_block() -> None:
    events = started()
    events.start_text()
    with pytest.raises(AssertionError, match="tool_use"):
        events.partial_json("{}")


def test_it_rejects_an_end_with_an_open_block() -> None:
    events = started()
    events.start_text()
    with pytest.raises(AssertionError, match="open"):
        events.message_delta(stop_reason="end_turn", usage={})


def test_it_rejects_a_second_stop_of_a_block() -> None:
    events = started()
    events.start_text()
    events.stop_block()
    with pytest.raises(AssertionError, match="no block"):
        events.stop_block()


def test_an_error_leaves_a_tool_call_open_but_no_text() -> None:
    events = started()
    events.start_text()
    with pytest.raises(AssertionError, match="closed before"):
        events.error(kind="api_error", message="x")
    events.stop_block()
    events.start_tool_use(tool_id="toolu_1", name="f")
    events.partial_json('{"a":')
    assert data_of(events.error(kind="api_error", message="x"))["error"] == {"type": "api_error", "message": "x"}


def test_nothing_follows_the_end() -> None:
    events = started()
    events.error(kind="api_error", message="x")
    with pytest.raises(AssertionError, match="nothing follows"):
        events.start_text()
