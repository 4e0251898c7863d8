"""Usage under OpenAI's names."""

from __future__ import annotations

import json
from typing import Any

import pytest

from inference.protocol.events import MessageEvents
from streaming.surfaces.openai import ChatChunks

WITH_CACHE = {"input_tokens": 3, "cache_read_input_tokens": 16, "output_tokens": 5}
WITHOUT = {"input_tokens": 19, "output_tokens": 5}


def frames(usage: dict[str, int]) -> bytes:
    events = MessageEvents()
    start = events.message_start(message_id="msg_1", model="m", input_tokens=19, retry_ms=2000)
    return start + events.message_delta(stop_reason="end_turn", usage=usage) + events.message_stop()


def streamed(usage: dict[str, int]) -> dict[str, Any]:
    out = ChatChunks(include_usage=True).translate(frames(usage))
    (found,) = [chunk for line in out.split(b"\n") if b'"usage":{' in line for chunk in [json.loads(line[6:])]]
    told: dict[str, Any] = found["usage"]
    return told


def whole(usage: dict[str, int]) -> dict[str, Any]:
    told: dict[str, Any] = ChatChunks(include_usage=True).whole(frames(usage))["usage"]
    return told


@pytest.mark.parametrize("form", [streamed, whole])
def test_the_prompt_includes_what_was_cached(form: Any) -> None:
    told = {"prompt_tokens": 19, "completion_tokens": 5, "total_tokens": 24}
    assert form(WITH_CACHE) == told | {"prompt_tokens_details": {"cached_tokens": 16}}
    assert form(WITHOUT) == told | {"prompt_tokens_details": {"cached_tokens": 0}}
