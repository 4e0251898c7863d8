"""The last frames of a stream that its gateway cannot serve to its end. None of them has an id."""

from __future__ import annotations

import json

from inference.protocol.events import BlockKind, frame

SHUTDOWN = frame("server_shutdown", {})


def server_shutdown(last_sent: bytes, *, input_tokens: int, output_tokens: int) -> bytes:
    """End a message for its client because this server stops; `last_sent` is the end of what the client has seen.

    A cut tool call stays open and an error follows, since clients take a closed one for a whole call.
    """
    kind, index = _open_block(last_sent)
    if kind == "tool_use":
        return _error("The server is stopping.")
    usage = {"input_tokens": input_tokens, "output_tokens": output_tokens}
    delta = {"stop_reason": "server_shutdown", "stop_sequence": None}
    end = frame("message_delta", {"delta": delta, "usage": usage}) + frame("message_stop", {})
    return (_stop(index) if kind else b"") + end


def failure(last_sent: bytes, message: str) -> bytes:
    """End a stream because of a fault of ours; `last_sent` is the end of what the client has seen."""
    kind, index = _open_block(last_sent)
    return (_stop(index) if kind == "text" else b"") + _error(message)


def _open_block(frames: bytes) -> tuple[BlockKind | None, int]:
    """Return which block is open after some frames: a delta or a start is last only where one is."""
    event = json.loads(frames.rpartition(b"\ndata: ")[2] or b"{}")
    index: int = event.get("index", 0)
    if event.get("type") == "content_block_start":
        return event["content_block"]["type"], index
    if event.get("type") == "content_block_delta":
        return ("text" if event["delta"]["type"] == "text_delta" else "tool_use"), index
    return None, index


def _stop(index: int) -> bytes:
    return frame("content_block_stop", {"index": index})


def _error(message: str) -> bytes:
    return frame("error", {"error": {"type": "api_error", "message": message}})
