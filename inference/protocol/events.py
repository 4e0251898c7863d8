"""The typed events of a message: a state machine that can only write a well-formed sequence.

    message_start (content_block_start content_block_delta+ content_block_stop)* message_delta message_stop
    … or, at any point after message_start, `error` as the last event, with an open text block closed first.

Each event is one SSE frame with its position in the log as `id`. Frames are written here, once, and every
reader of the log sends the same bytes.
"""

from __future__ import annotations

import json
from typing import Any, Literal

from inference.protocol.outcomes import StopReason

BlockKind = Literal["text", "tool_use"]


def frame(event_type: str, body: dict[str, Any], *, event_id: int | None = None) -> bytes:
    """Return one SSE frame: LF line ends, one ASCII data line. Ephemeral events (ping, farewell) have no id."""
    head = "" if event_id is None else f"id: {event_id}\n"
    data = json.dumps({"type": event_type} | body, separators=(",", ":"))
    return f"{head}event: {event_type}\ndata: {data}\n\n".encode("ascii")


PING = b": ping\n" + frame("ping", {})


class MessageEvents:
    """Write one message's events in order; each method returns the frame of the event it adds."""

    def __init__(self, *, last_id: int = 0, next_index: int = 0, open_block: BlockKind | None = None) -> None:
        """Begin a message, or go on after `last_id` with `next_index` blocks begun, the last of them `open_block`."""
        self.last_id = last_id
        self._next_index = next_index
        self._open: BlockKind | None = open_block
        self._delta_prefix = _delta_prefix(next_index - 1)  # of the open block
        self._ended = False

    @property
    def open_block(self) -> BlockKind | None:
        return self._open

    @property
    def num_blocks(self) -> int:
        """How many blocks have begun."""
        return self._next_index

    @property
    def ended(self) -> bool:
        return self._ended

    def message_start(self, *, message_id: str, model: str, input_tokens: int, retry_ms: int) -> bytes:
        """Open the message. The frame carries the stream's only `retry:` line."""
        assert self.last_id == 0, "message_start is the first event"
        message: dict[str, Any] = {
            "id": message_id, "type": "message", "role": "assistant", "model": model, "content": [],
            "stop_reason": None, "stop_sequence": None,
            "usage": {"input_tokens": input_tokens, "output_tokens": 0},
        }  # fmt: skip
        return f"retry: {retry_ms}\n".encode() + self._event("message_start", {"message": message})

    def start_text(self) -> bytes:
        """Open a text block."""
        return self._start_block("text", {"type": "text", "text": ""})

    def start_tool_use(self, *, tool_id: str, name: str) -> bytes:
        """Open a tool call."""
        return self._start_block("tool_use", {"type": "tool_use", "id": tool_id, "name": name, "input": {}})

    def text(self, text: str) -> bytes:
        """Add text to the open text block."""
        assert self._open == "text", f"a text delta needs an open text block, not {self._open}"
        return self._delta('{"type":"text_delta","text":', text)

    def partial_json(self, fragment: str) -> bytes:
        """Add a fragment of the open tool call's input."""
        assert self._open == "tool_use", f"an input_json_delta needs an open tool_use block, not {self._open}"
        return self._delta('{"type":"input_json_delta","partial_json":', fragment)

    def stop_block(self) -> bytes:
        """Close the open block."""
        assert self._open is not None, "no block is open"
        self._open = None
        return self._event("content_block_stop", {"index": self._next_index - 1})

    def message_delta(
        self,
        *,
        stop_reason: StopReason,
        stop_sequence: str | None = None,
        stop_details: dict[str, Any] | None = None,
        usage: dict[str, int],
    ) -> bytes:
        """Say why the message ended, and its cumulative usage."""
        assert self._open is None, "a block is still open"
        delta: dict[str, Any] = {"stop_reason": stop_reason, "stop_sequence": stop_sequence}
        if stop_details is not None:
            delta["stop_details"] = stop_details
        return self._event("message_delta", {"delta": delta, "usage": usage})

    def message_stop(self) -> bytes:
        """End a message that came to its end."""
        written = self._event("message_stop", {})
        self._ended = True
        return written

    def error(self, *, kind: str, message: str) -> bytes:
        """End a message that failed. An open tool call stays open: clients take a closed one for a whole call."""
        assert self._open != "text", "an open text block is closed before the error"
        written = self._event("error", {"error": {"type": kind, "message": message}})
        self._ended = True
        return written

    def _start_block(self, kind: BlockKind, content_block: dict[str, Any]) -> bytes:
        assert self._open is None, f"a {self._open} block is still open"
        index = self._next_index
        self._open, self._next_index = kind, index + 1
        self._delta_prefix = _delta_prefix(index)
        return self._event("content_block_start", {"index": index, "content_block": content_block})

    def _delta(self, head: str, text: str) -> bytes:
        assert text, "no empty deltas"
        # Written by hand: this is the one event whose cost counts.
        return f"id: {self._next_id()}\n{self._delta_prefix}{head}{json.dumps(text)}}}}}\n\n".encode("ascii")

    def _event(self, event_type: str, body: dict[str, Any]) -> bytes:
        return frame(event_type, body, event_id=self._next_id())

    def _next_id(self) -> int:
        assert not self._ended, "nothing follows the end of a message"
        self.last_id += 1
        return self.last_id


def _delta_prefix(index: int) -> str:
    return f'event: content_block_delta\ndata: {{"type":"content_block_delta","index":{index},"delta":'
