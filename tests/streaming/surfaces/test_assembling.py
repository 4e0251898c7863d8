"""Messages put together from their events."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.protocol.events import MessageEvents
from streaming.surfaces.assembling import assemble, gather, parse_input

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text(max_size=3), v, max_size=3),
)
objects = st.dictionaries(st.text(max_size=5), values, max_size=4)


def frames_of(*fragments: str, reason: Any = "tool_use") -> bytes:
    events = MessageEvents()
    frames = [
        events.message_start(message_id="msg_1", model="m", input_tokens=3, retry_ms=1),
        events.start_text(),
        events.text("Hi"),
        events.stop_block(),
        events.start_tool_use(tool_id="toolu_1", name="f"),
        *(events.partial_json(fragment) for fragment in fragments),
        events.stop_block(),
        events.message_delta(stop_reason=reason, usage={"output_tokens": 9}),
        events.message_stop(),
    ]
    return b"".join(frames)


def test_it_works() -> None:
    message = assemble(frames_of('{"a": [1,', ' "}"]', "}"))
    assert message["content"] == [
        {"type": "text", "text": "Hi"},
        {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": [1, "}"]}},
    ]
    assert message["stop_reason"] == "tool_use"


def test_an_input_can_be_had_as_it_was_written() -> None:
    assert gather(frames_of('{"a"', ": 1}"))["content"][1]["input"] == '{"a": 1}'


def test_of_a_cut_input_there_is_what_is_whole() -> None:
    message = assemble(frames_of('{"a": [1, 2, {"b": "x"', reason="max_tokens"))
    assert message["content"][1]["input"] == {"a": [1, 2, {}]}


@pytest.mark.parametrize(
    ("written", "whole"),
    [
        ("", {}), ("{", {}), ('{"a', {}), ('{"a": tr', {}), ('{"a": 1', {}), ('{"a": 1,', {"a": 1}),
        ('{"a": "x", "b', {"a": "x"}), ('{"a": "x\\"y', {}), ('{"a": [1, 2', {"a": [1]}),
        ('{"a": {"b": 1}', {"a": {"b": 1}}),
        ('{"a": "}, {", "b": [', {"a": "}, {", "b": []}),
    ],
)  # fmt: skip
def test_cuts(written: str, whole: dict[str, Any]) -> None:
    assert parse_input(written) == whole


@given(objects, st.data())
def test_any_cut_gives_a_part(value: dict[str, Any], data: st.DataObject) -> None:
    written = json.dumps(value)
    assert parse_input(written) == value
    cut = parse_input(written[: data.draw(st.integers(0, len(written)))])
    assert list(cut) == list(value)[: len(cut)]
