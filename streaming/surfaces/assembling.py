"""A finished message, put together from its events."""

from __future__ import annotations

import json
from typing import Any

from common.errors import ApiError, Timeout


def assemble(frames: bytes) -> dict[str, Any]:
    """Return a message as Anthropic's JSON; raise the error that it ended with."""
    message = gather(frames)
    for block in message.get("content", ()):
        if block["type"] == "tool_use":
            block["input"] = parse_input(block["input"])
    return message


def gather(frames: bytes) -> dict[str, Any]:
    """Return a message whose tools' inputs are as they were written; raise the error that it ended with."""
    message: dict[str, Any] = {}
    for line in frames.split(b"\n"):
        if line.startswith(b"data: "):
            _apply(message, json.loads(line[6:]))
    return message


def parse_input(written: str) -> dict[str, Any]:
    """Read a tool's input; of one that was cut (by `max_tokens`) return what is whole."""
    try:
        whole: dict[str, Any] = json.loads(written)
    except ValueError:
        return _closed(written)
    return whole


def _apply(message: dict[str, Any], event: dict[str, Any]) -> None:
    kind = event["type"]
    if kind == "message_start":
        message.update(event["message"])
    elif kind == "content_block_start":
        block = event["content_block"]
        message["content"].append(block | {"input": ""} if block["type"] == "tool_use" else block)
    elif kind == "content_block_delta":
        block, delta = message["content"][event["index"]], event["delta"]
        if delta["type"] == "text_delta":
            block["text"] += delta["text"]
        else:
            block["input"] += delta["partial_json"]
    elif kind == "message_delta":
        message.update(event["delta"])
        message["usage"] = message["usage"] | event["usage"]
    elif kind == "error":
        error = event["error"]
        raise (Timeout if error["type"] == "timeout_error" else ApiError)(error["message"])


def _closed(written: str) -> dict[str, Any]:
    """Cut JSON back to the last place where it can be closed, and close it."""
    end, closing = 0, ""
    still_open: list[str] = []
    in_string = escaped = False
    for position, character in enumerate(written):
        if in_string:
            in_string = escaped or character != '"'
            escaped = character == "\\" and not escaped
        elif character == '"':
            in_string = True
        elif character in "{[":
            still_open.append("}" if character == "{" else "]")
            end, closing = position + 1, "".join(reversed(still_open))
        elif character in "}]":
            still_open.pop()
            end, closing = position + 1, "".join(reversed(still_open))
        elif character == ",":
            end, closing = position, "".join(reversed(still_open))
    whole: dict[str, Any] = json.loads(written[:end] + closing or "{}")
    return whole
