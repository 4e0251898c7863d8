"""A message's events, in OpenAI's form."""

from __future__ import annotations

import json
from typing import Any

import pytest

from common.errors import ApiError
from inference.protocol.events import MessageEvents
from inference.protocol.outcomes import StopReason
from streaming.surfaces.openai import ChatChunks


def frames_of(reason: StopReason = "tool_use", last: str = '{"b": 2}') -> list[bytes]:
    events = MessageEvents()
    return [
        events.message_start(message_id="msg_1", model="m", input_tokens=3, retry_ms=1),
        events.start_text(),
        events.text("Hi"),
        events.stop_block(),
        events.start_tool_use(tool_id="toolu_1", name="f"),
        events.partial_json('{"a"'),
        events.partial_json(": 1}"),
        events.stop_block(),
        events.start_tool_use(tool_id="toolu_2", name="g"),
        events.partial_json(last),
        events.stop_block(),
        events.message_delta(stop_reason=reason, usage={"input_tokens": 3, "output_tokens": 9}),
        events.message_stop(),
    ]


def deltas(frames: list[bytes]) -> list[dict[str, Any]]:
    surface = ChatChunks(include_usage=False)
    sent = b"".join(surface.translate(frame) for frame in frames)
    lines = [line[6:] for line in sent.decode().split("\n") if line.startswith("data: ")]
    assert lines[-1] == "[DONE]"
    choices = [json.loads(line)["choices"][0] for line in lines[:-1]]
    assert [choice["finish_reason"] for choice in choices] == [None] * (len(choices) - 1) + ["tool_calls"]
    return [choice["delta"] for choice in choices]


def test_it_works() -> None:
    first, second = ({"name": name, "arguments": ""} for name in ("f", "g"))
    assert deltas(frames_of()) == [
        {"role": "assistant", "content": ""},
        {"content": "Hi"},
        {"tool_calls": [{"index": 0, "id": "toolu_1", "type": "function", "function": first}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"a"'}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": ": 1}"}}]},
        {"tool_calls": [{"index": 1, "id": "toolu_2", "type": "function", "function": second}]},
        {"tool_calls": [{"index": 1, "function": {"arguments": '{"b": 2}'}}]},
        {},
    ]


def test_a_completion() -> None:
    (choice,) = ChatChunks(include_usage=False).whole(b"".join(frames_of()))["choices"]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["content"] == "Hi"
    assert choice["message"]["tool_calls"] == [
        {"id": "toolu_1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}},
        {"id": "toolu_2", "type": "function", "function": {"name": "g", "arguments": '{"b": 2}'}},
    ]


def test_a_completion_of_calls_alone_has_no_content() -> None:
    frames = frames_of()
    (choice,) = ChatChunks(include_usage=False).whole(b"".join([frames[0], *_without_text(frames)]))["choices"]
    assert choice["message"]["content"] is None


def _without_text(frames: list[bytes]) -> list[bytes]:
    return [frame.replace(b'"index":1', b'"index":0').replace(b'"index":2', b'"index":1') for frame in frames[4:]]


def test_a_cut_call_keeps_what_was_written() -> None:
    (choice,) = ChatChunks(include_usage=False).whole(b"".join(frames_of("max_tokens", '{"b": "x')))["choices"]
    assert choice["finish_reason"] == "length"
    assert choice["message"]["tool_calls"][1]["function"]["arguments"] == '{"b": "x'


def test_a_cancelled_message_is_an_error() -> None:
    with pytest.raises(ApiError, match="cancelled"):
        ChatChunks(include_usage=False).whole(b"".join(frames_of("cancelled")))
