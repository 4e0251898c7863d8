"""OpenAI's chat completions: a message's events in OpenAI's form."""

from __future__ import annotations

import json
import time
from typing import Any

from common.error_forms import openai_error
from common.errors import ApiError
from streaming.surfaces.assembling import gather

FINISH_REASONS = {
    "end_turn": "stop", "stop_sequence": "stop", "max_tokens": "length", "tool_use": "tool_calls",
    "safety": "content_filter", "refusal": "content_filter",
}  # fmt: skip
CODES = {"api_error": "server_error", "timeout_error": "timeout"}  # the rest are reasons why an answer was cut
PING = b": ping\n\n"  # harmless to clients here, where no event has an id


class ChatChunks:
    """A message's events, turned into OpenAI's chunks as they come."""

    ping = PING

    def __init__(self, *, include_usage: bool) -> None:
        self._include_usage = include_usage
        self._head: dict[str, Any] = {}
        self._usage: dict[str, int] = {}
        self._num_calls = 0

    def translate(self, frames: bytes) -> bytes:
        """Return the chunks for some events, as SSE frames without ids."""
        return b"".join(self._event(json.loads(line[6:])) for line in frames.split(b"\n") if line.startswith(b"data: "))

    def whole(self, frames: bytes) -> dict[str, Any]:
        """Return a finished message as a completion."""
        return completion(gather(frames))

    def _event(self, event: dict[str, Any]) -> bytes:
        kind = event["type"]
        if kind == "message_start":
            return self._start(event["message"])
        if kind == "content_block_start":
            return self._begin_call(event["content_block"])
        if kind == "content_block_delta":
            return self._chunk(self._delta(event["delta"]))
        if kind == "message_delta":
            return self._finish(event["delta"]["stop_reason"], event["usage"])
        if kind == "message_stop":
            return b"data: [DONE]\n\n" if self._head else b""
        return self._fail(**event["error"]) if kind == "error" else b""

    def _start(self, message: dict[str, Any]) -> bytes:
        self._head = {"id": message["id"], "object": "chat.completion.chunk", "created": int(time.time()),
                      "model": message["model"]}  # fmt: skip
        self._usage = message["usage"]
        return self._chunk({"role": "assistant", "content": ""})

    def _begin_call(self, block: dict[str, Any]) -> bytes:
        if block["type"] != "tool_use":
            return b""
        self._num_calls += 1
        return self._chunk({"tool_calls": [{"index": self._num_calls - 1, **_call(block | {"input": ""})}]})

    def _delta(self, delta: dict[str, Any]) -> dict[str, Any]:
        if delta["type"] == "text_delta":
            return {"content": delta["text"]}
        return {"tool_calls": [{"index": self._num_calls - 1, "function": {"arguments": delta["partial_json"]}}]}

    def _finish(self, reason: str, usage: dict[str, int]) -> bytes:
        if reason not in FINISH_REASONS:
            return self._fail(type=reason, message=f"The answer was cut: {reason}.")
        last = self._chunk({}, FINISH_REASONS[reason])
        if self._include_usage:
            last += _frame(self._head | {"choices": [], "usage": usage_of(self._usage | usage)})
        return last

    def _fail(self, *, type: str, message: str) -> bytes:
        self._head = {}  # and no [DONE] follows
        return _frame(openai_error(message, type, param=None, code=CODES.get(type, type)))

    def _chunk(self, delta: dict[str, Any], finish_reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        usage = {"usage": None} if self._include_usage else {}
        return _frame(self._head | {"choices": [choice]} | usage)


def completion(message: dict[str, Any]) -> dict[str, Any]:
    """Return a finished message in OpenAI's form; raise where it was cut short."""
    reason = message["stop_reason"]
    if reason not in FINISH_REASONS:
        raise ApiError(f"The answer was cut: {reason}.")
    text = "".join(block["text"] for block in message["content"] if block["type"] == "text")
    calls = [_call(block) for block in message["content"] if block["type"] == "tool_use"]
    said: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None}
    if calls:
        said |= {"content": text or None, "tool_calls": calls}
    choice = {"index": 0, "message": said, "logprobs": None, "finish_reason": FINISH_REASONS[reason]}
    return {"id": message["id"], "object": "chat.completion", "created": int(time.time()), "model": message["model"],
            "choices": [choice], "usage": usage_of(message["usage"])}  # fmt: skip


def usage_of(usage: dict[str, int]) -> dict[str, Any]:
    """Return usage under OpenAI's names, where the prompt's tokens include those that were cached."""
    cached, output_tokens = usage.get("cache_read_input_tokens", 0), usage["output_tokens"]
    input_tokens = usage["input_tokens"] + cached
    return {"prompt_tokens": input_tokens, "completion_tokens": output_tokens,
            "total_tokens": input_tokens + output_tokens,
            "prompt_tokens_details": {"cached_tokens": cached}}  # fmt: skip


def _call(block: dict[str, Any]) -> dict[str, Any]:
    """Return a call in OpenAI's form; its arguments are text."""
    return {"id": block["id"], "type": "function", "function": {"name": block["name"], "arguments": block["input"]}}


def _frame(body: dict[str, Any]) -> bytes:
    return b"data: %s\n\n" % json.dumps(body, separators=(",", ":")).encode()
