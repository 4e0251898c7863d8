"""The last frames of a stream that cannot be served to its end."""

from __future__ import annotations

import json
from typing import Any

import pytest

from inference.protocol.events import BlockKind, MessageEvents
from streaming.parting import failure, server_shutdown


def kinds(frames: bytes) -> list[str]:
    assert b"id: " not in frames
    return [event["type"] for event in events(frames)]


def events(frames: bytes) -> list[dict[str, Any]]:
    return [json.loads(line[6:]) for line in frames.decode().split("\n") if line.startswith("data: ")]


def seen(kind: BlockKind | None, *, deltas: bool = True) -> bytes:
    """What a client has seen, up to an open block."""
    log = MessageEvents()
    frames = log.message_start(message_id="msg_1", model="m", input_tokens=3, retry_ms=2000)
    if kind == "text":
        frames += log.start_text() + (log.text("a\ndata: {") if deltas else b"")
    elif kind == "tool_use":
        frames += log.start_tool_use(tool_id="toolu_1", name="f") + (log.partial_json("{") if deltas else b"")
    return frames


@pytest.mark.parametrize("deltas", [True, False])
def test_a_failure_closes_text_before_the_error(deltas: bool) -> None:
    assert kinds(failure(seen("text", deltas=deltas), "x")) == ["content_block_stop", "error"]


@pytest.mark.parametrize("deltas", [True, False])
def test_a_cut_tool_call_stays_open(deltas: bool) -> None:
    assert kinds(failure(seen("tool_use", deltas=deltas), "x")) == ["error"]
    assert kinds(server_shutdown(seen("tool_use", deltas=deltas), input_tokens=3, output_tokens=1)) == ["error"]


@pytest.mark.parametrize("frames", [b"", seen(None)])
def test_without_a_block_there_is_only_the_error(frames: bytes) -> None:
    assert kinds(failure(frames, "x")) == ["error"]


def test_a_shutdown_tells_the_usage_so_far() -> None:
    frames = server_shutdown(seen("text"), input_tokens=3, output_tokens=2)
    assert kinds(frames) == ["content_block_stop", "message_delta", "message_stop"]
    stop, delta, _ = events(frames)
    assert stop["index"] == 0
    assert delta["usage"] == {"input_tokens": 3, "output_tokens": 2}


def test_a_shutdown_closes_no_block_that_the_client_did_not_see() -> None:
    assert kinds(server_shutdown(seen(None), input_tokens=3, output_tokens=0)) == ["message_delta", "message_stop"]
