"""Anthropic's bodies: what is taken, what is refused and how that is said."""

from __future__ import annotations

import json
from typing import Any

import pytest

from common.errors import ApiError, InvalidRequest, Timeout
from streaming.surfaces.anthropic import assemble, conversation, wanted
from streaming.surfaces.messages_body import parse_count, parse_messages

GOOD: dict[str, Any] = {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}]}


IMAGE = {"role": "user", "content": [{"type": "image"}]}


def parse(**changes: Any) -> Any:
    return parse_messages(json.dumps(GOOD | changes).encode())


def test_it_works() -> None:
    body = parse(stream=True, temperature=0, system="Be kind.")
    assert (body.model, body.max_tokens, body.stream, body.temperature) == ("m", 5, True, 0)
    assert conversation(body) == [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "hi"}]


def test_blocks_and_runs_of_one_role_are_joined() -> None:
    blocks = [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}, {"type": "text", "text": "b"}]
    body = parse(messages=[{"role": "user", "content": blocks}, {"role": "user", "content": "c"}])
    assert conversation(body) == [{"role": "user", "content": "a\nb\nc"}]


@pytest.mark.parametrize(
    "hint",
    [
        {"metadata": {"user_id": "u"}},
        {"service_tier": "auto"},
        {"thinking": {"type": "disabled"}},
        {"cache_control": {}},
    ],
)
def test_hints_that_change_nothing_are_taken(hint: dict[str, Any]) -> None:
    assert parse(**hint).model == "m"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"no_such_field": 1}, "no_such_field: no such field."),
        ({"tools": [{"name": "f"}]}, "tools[0].input_schema: this field is required."),
        ({"max_tokens": 0}, "max_tokens: expected `int` >= 1."),
        ({"max_tokens": "5"}, "max_tokens: expected `int`, got `str`."),
        ({"temperature": 3}, "temperature: expected `float` <= 1.0."),
        ({"messages": []}, "messages: expected `array` of length >= 1."),
        ({"messages": [{"role": "user"}]}, "messages[0].content: this field is required."),
        ({"messages": [{"role": "user", "content": ""}]}, "messages[0].content: expected some text."),
        ({"messages": [{"role": "system", "content": "x"}]}, "messages[0].role: invalid enum value 'system'."),
        ({"messages": [IMAGE]}, "messages[0].content[0].type: only text, tool_use and tool_result are supported."),
        ({"system": [{"text": "x"}]}, "system[0].type: this field is required."),
        ({"system": [{"type": "image", "text": "x"}]}, "system[0].type: invalid enum value 'image'."),
        ({"thinking": {"type": "enabled"}}, "thinking.type: not supported here."),
        ({"thread": {"type": "create"}}, "thread: not supported here."),
        ({"tool_choice": {"type": "any"}}, "tool_choice: there are no tools to choose from."),
        ({"stop_sequences": [""]}, "stop_sequences[0]: expected `str` of length >= 1."),
    ],
)  # fmt: skip
def test_it_refuses_by_name(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        wanted(parse(**changes))
    assert refused.value.message.startswith(said), refused.value.message


def test_it_refuses_what_is_missing() -> None:
    with pytest.raises(InvalidRequest, match=r"^max_tokens: this field is required\.$"):
        parse_messages(b'{"model": "m", "messages": [{"role": "user", "content": "hi"}]}')


def test_it_refuses_an_answer_begun_by_the_caller() -> None:
    with pytest.raises(InvalidRequest, match="the last must be the user's"):
        wanted(parse(messages=[*GOOD["messages"], {"role": "assistant", "content": "I"}]))


@pytest.mark.parametrize("raw", [b"", b"{", b"\xff\xfe", b"[1]", b"nonsense"])
def test_it_refuses_what_is_no_object(raw: bytes) -> None:
    with pytest.raises(InvalidRequest, match="The body"):
        parse_messages(raw)


def test_a_count_needs_no_limit() -> None:
    assert parse_count(b'{"model": "m", "messages": [{"role": "user", "content": "hi"}]}').model == "m"


def frames(*events: dict[str, Any]) -> bytes:
    return b"".join(b"event: %s\ndata: %s\n\n" % (e["type"].encode(), json.dumps(e).encode()) for e in events)


START = {
    "type": "message_start",
    "message": {"id": "msg_1", "content": [], "usage": {"input_tokens": 3, "output_tokens": 0}},
}


def test_a_message_is_put_together_from_its_events() -> None:
    message = assemble(
        frames(
            START,
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "He"}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "y"}},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
            {"type": "message_stop"},
        )
    )
    assert message["content"] == [{"type": "text", "text": "Hey"}]
    assert message["stop_reason"] == "end_turn"
    assert message["usage"] == {"input_tokens": 3, "output_tokens": 2}


@pytest.mark.parametrize(("kind", "raised"), [("timeout_error", Timeout), ("api_error", ApiError)])
def test_an_error_event_becomes_an_error(kind: str, raised: type[ApiError]) -> None:
    with pytest.raises(raised, match="Sorry"):
        assemble(frames(START, {"type": "error", "error": {"type": kind, "message": "Sorry"}}))
