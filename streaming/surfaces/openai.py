"""OpenAI's chat completions: the body as we accept it, and a message's events in OpenAI's form."""

from __future__ import annotations

import json
import time
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from common.errors import ApiError, InvalidRequest
from inference.protocol.requests import Sampling
from streaming.surfaces.anthropic import assemble
from streaming.surfaces.decoding import decode
from streaming.wanted import Turn, Wanted, random_seed

Hint = Any  # taken, and nothing comes of it here

FINISH_REASONS = {
    "end_turn": "stop", "stop_sequence": "stop", "max_tokens": "length", "tool_use": "tool_calls",
    "safety": "content_filter", "refusal": "content_filter",
}  # fmt: skip
PING = b": ping\n\n"  # harmless to clients here, where no event has an id


class TextPart(Struct, forbid_unknown_fields=True):
    """A part of a message's content: text, the only kind taken."""

    type: Literal["text"]
    text: str


class ChatMessage(Struct, forbid_unknown_fields=True):
    """One message of the conversation."""

    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[TextPart]
    name: Hint = None


class StreamOptions(Struct, forbid_unknown_fields=True):
    """What a stream carries besides text."""

    include_usage: bool = False
    include_obfuscation: bool = False


class TextFormat(Struct, forbid_unknown_fields=True):
    """The only `response_format` we take: text."""

    type: Literal["text"]


Nothing = Literal[0]  # a penalty that asks for nothing


class ChatBody(Struct, forbid_unknown_fields=True, kw_only=True):
    """The body of POST /v1/chat/completions."""

    model: str
    messages: Annotated[list[ChatMessage], Meta(min_length=1)]
    max_tokens: Annotated[int, Meta(ge=1)] | None = None
    max_completion_tokens: Annotated[int, Meta(ge=1)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(gt=0, le=1)] | None = None
    stop: Annotated[str, Meta(min_length=1)] | Annotated[list[str], Meta(max_length=16)] | None = None
    seed: int | None = None
    # Values that ask for nothing:
    n: Literal[1] | None = None
    logprobs: Literal[False] | None = None
    frequency_penalty: Annotated[float, Meta(ge=0, le=0)] | None = None
    presence_penalty: Annotated[float, Meta(ge=0, le=0)] | None = None
    response_format: TextFormat | None = None
    tools: Annotated[list[Any], Meta(max_length=0)] | None = None
    tool_choice: Literal["none"] | None = None
    logit_bias: Annotated[dict[str, float], Meta(max_length=0)] | None = None
    # Hints that cannot change what the answer means:
    user: Hint = None
    metadata: Hint = None
    service_tier: Hint = None
    store: Hint = None
    safety_identifier: Hint = None
    prompt_cache_key: Hint = None


_decoder = msgspec.json.Decoder(ChatBody)
_UNSUPPORTED = {
    "tools", "tool_choice", "response_format", "n", "logprobs", "functions", "function_call", "logit_bias",
    "top_logprobs", "modalities", "audio", "parallel_tool_calls", "prediction", "reasoning_effort",
    "web_search_options",
}  # fmt: skip


def parse_chat(raw: bytes) -> ChatBody:
    """Read the body; raise `InvalidRequest` naming the field."""
    body = decode(_decoder, raw, unsupported=_UNSUPPORTED)
    if body.max_tokens is not None and body.max_completion_tokens is not None:
        raise InvalidRequest("max_tokens: give it or max_completion_tokens, not both.")
    if body.messages[-1].role != "user":
        raise InvalidRequest("messages: the last must be the user's.")
    for number, message in enumerate(body.messages):
        if not _text(message):
            raise InvalidRequest(f"messages[{number}].content: expected some text.")
    return body


def wanted(body: ChatBody) -> Wanted:
    """Say what a body asks for."""
    stops = [body.stop] if isinstance(body.stop, str) else body.stop or []
    sampling = Sampling(
        temperature=1.0 if body.temperature is None else body.temperature,
        top_p=1.0 if body.top_p is None else body.top_p,
        seed=random_seed() if body.seed is None else body.seed & (1 << 63) - 1,
    )
    return Wanted(
        model=body.model,
        turns=_turns(body),
        max_tokens=body.max_tokens or body.max_completion_tokens,
        stop_sequences=tuple(stop for stop in stops if stop),
        sampling=sampling,
    )


def error_body(error: ApiError, request_id: str) -> dict[str, Any]:
    """Return OpenAI's form of an error; the request's id is in the headers."""
    return {"error": {"message": error.message, "type": error.kind, "param": None, "code": None}}


class ChatChunks:
    """A message's events, turned into OpenAI's chunks as they come."""

    ping = PING

    def __init__(self, *, include_usage: bool) -> None:
        self._include_usage = include_usage
        self._head: dict[str, Any] = {}
        self._input_tokens = 0

    def translate(self, frames: bytes) -> bytes:
        """Return the chunks for some events, as SSE frames without ids."""
        return b"".join(self._event(json.loads(line[6:])) for line in frames.split(b"\n") if line.startswith(b"data: "))

    def whole(self, frames: bytes) -> dict[str, Any]:
        """Return a finished message as a completion."""
        return completion(assemble(frames))

    def _event(self, event: dict[str, Any]) -> bytes:
        kind = event["type"]
        if kind == "message_start":
            return self._start(event["message"])
        if kind == "content_block_delta":
            return self._chunk({"content": event["delta"]["text"]})
        if kind == "message_delta":
            return self._finish(event["delta"]["stop_reason"], event["usage"])
        if kind == "message_stop":
            return b"data: [DONE]\n\n" if self._head else b""
        return self._fail(event["error"]["message"], event["error"]["type"]) if kind == "error" else b""

    def _start(self, message: dict[str, Any]) -> bytes:
        self._head = {"id": message["id"], "object": "chat.completion.chunk", "created": int(time.time()),
                      "model": message["model"]}  # fmt: skip
        self._input_tokens = message["usage"]["input_tokens"]
        return self._chunk({"role": "assistant", "content": ""})

    def _finish(self, reason: str, usage: dict[str, int]) -> bytes:
        if reason not in FINISH_REASONS:
            return self._fail(f"The answer was cut: {reason}.", reason)
        last = self._chunk({}, FINISH_REASONS[reason])
        if self._include_usage:
            last += _frame(self._head | {"choices": [], "usage": usage_of(self._input_tokens, usage["output_tokens"])})
        return last

    def _fail(self, message: str, kind: str) -> bytes:
        self._head = {}  # and no [DONE] follows
        return _frame({"error": {"message": message, "type": kind, "param": None, "code": None}})

    def _chunk(self, delta: dict[str, Any], finish_reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        usage = {"usage": None} if self._include_usage else {}
        return _frame(self._head | {"choices": [choice]} | usage)


def completion(message: dict[str, Any]) -> dict[str, Any]:
    """Return a finished message in OpenAI's form; raise where it was cut short."""
    reason = message["stop_reason"]
    if reason not in FINISH_REASONS:
        raise ApiError(f"The answer was cut: {reason}.")
    text = "".join(block["text"] for block in message["content"])
    usage = message["usage"]
    choice = {"index": 0, "message": {"role": "assistant", "content": text, "refusal": None}, "logprobs": None,
              "finish_reason": FINISH_REASONS[reason]}  # fmt: skip
    return {"id": message["id"], "object": "chat.completion", "created": int(time.time()), "model": message["model"],
            "choices": [choice], "usage": usage_of(usage["input_tokens"], usage["output_tokens"])}  # fmt: skip


def usage_of(input_tokens: int, output_tokens: int) -> dict[str, int]:
    """Return usage under OpenAI's names."""
    return {"prompt_tokens": input_tokens, "completion_tokens": output_tokens,
            "total_tokens": input_tokens + output_tokens}  # fmt: skip


def _frame(body: dict[str, Any]) -> bytes:
    return b"data: %s\n\n" % json.dumps(body, separators=(",", ":")).encode()


def _turns(body: ChatBody) -> list[Turn]:
    turns: list[Turn] = []
    for message in body.messages:
        role = "system" if message.role == "developer" else message.role
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += "\n" + _text(message)
        else:
            turns.append({"role": role, "content": _text(message)})
    return turns


def _text(message: ChatMessage) -> str:
    content = message.content
    return content if isinstance(content, str) else "\n".join(part.text for part in content)
