"""Anthropic's Messages: the body as we accept it, and the finished message as JSON."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from common.errors import ApiError, InvalidRequest, Timeout
from inference.protocol.events import PING
from inference.protocol.requests import Sampling
from streaming.surfaces.decoding import decode
from streaming.wanted import Turn, Wanted, random_seed

B = TypeVar("B", "MessagesBody", "CountBody")

# Hints that cannot change what the answer means: taken, and nothing comes of them here.
Hint = Any


class TextBlock(Struct, forbid_unknown_fields=True):
    """A block of text, the only kind taken so far."""

    type: Literal["text"]
    text: str
    cache_control: Hint = None
    citations: None = None


Content = str | list[TextBlock]


class MessageIn(Struct, forbid_unknown_fields=True):
    """One message of the conversation."""

    role: Literal["user", "assistant"]
    content: Content


class ThinkingDisabled(Struct, forbid_unknown_fields=True):
    """The only `thinking` we take: none."""

    type: Literal["disabled"]


class NoTool(Struct, forbid_unknown_fields=True):
    """The only `tool_choice` we take: none."""

    type: Literal["none"]


class MessagesBody(Struct, forbid_unknown_fields=True, kw_only=True):
    """The body of POST /v1/messages and /v1/streams."""

    model: str
    messages: Annotated[list[MessageIn], Meta(min_length=1)]
    max_tokens: Annotated[int, Meta(ge=1)]
    system: Content | UnsetType = UNSET
    stream: bool = False
    temperature: Annotated[float, Meta(ge=0, le=1)] = 1.0
    top_p: Annotated[float, Meta(gt=0, le=1)] = 1.0
    top_k: Annotated[int, Meta(ge=0)] = 0
    stop_sequences: Annotated[list[Annotated[str, Meta(min_length=1)]], Meta(max_length=16)] = []
    # Values that ask for nothing:
    thinking: ThinkingDisabled | None = None
    tools: Annotated[list[Any], Meta(max_length=0)] = []
    tool_choice: NoTool | None = None
    mcp_servers: Annotated[list[Any], Meta(max_length=0)] = []
    container: None = None
    # Hints:
    metadata: Hint = None
    service_tier: Hint = None
    cache_control: Hint = None


class CountBody(Struct, forbid_unknown_fields=True, kw_only=True):
    """The body of POST /v1/messages/count_tokens."""

    model: str
    messages: Annotated[list[MessageIn], Meta(min_length=1)]
    system: Content | UnsetType = UNSET
    thinking: ThinkingDisabled | None = None
    tools: Annotated[list[Any], Meta(max_length=0)] = []
    tool_choice: NoTool | None = None
    mcp_servers: Annotated[list[Any], Meta(max_length=0)] = []
    cache_control: Hint = None


_messages_decoder = msgspec.json.Decoder(MessagesBody)
_count_decoder = msgspec.json.Decoder(CountBody)

_UNSUPPORTED = {"tools", "tool_choice", "thinking", "mcp_servers", "container", "output_config", "output_format"}


def parse_messages(raw: bytes) -> MessagesBody:
    """Read the body of a message request; raise `InvalidRequest` naming the field."""
    return _checked(decode(_messages_decoder, raw, unsupported=_UNSUPPORTED))


def parse_count(raw: bytes) -> CountBody:
    """Read the body of a count request; raise `InvalidRequest` naming the field."""
    return _checked(decode(_count_decoder, raw, unsupported=_UNSUPPORTED))


def wanted(body: MessagesBody) -> Wanted:
    """Say what a body asks for."""
    sampling = Sampling(temperature=body.temperature, top_p=body.top_p, top_k=body.top_k, seed=random_seed())
    return Wanted(
        model=body.model,
        turns=conversation(body),
        max_tokens=body.max_tokens,
        stop_sequences=tuple(body.stop_sequences),
        sampling=sampling,
    )


def conversation(body: MessagesBody | CountBody) -> list[Turn]:
    """Return the turns as a chat template takes them: system first, runs of one role joined."""
    turns: list[Turn] = []
    if body.system is not UNSET and body.system:
        turns.append({"role": "system", "content": _text(body.system)})
    for turn in body.messages:
        if turns and turns[-1]["role"] == turn.role:
            turns[-1]["content"] += "\n" + _text(turn.content)
        else:
            turns.append({"role": turn.role, "content": _text(turn.content)})
    return turns


class TypedEvents:
    """The log's own form: what is sent is what was written."""

    ping = PING

    def translate(self, frames: bytes) -> bytes:
        return frames

    def whole(self, frames: bytes) -> dict[str, Any]:
        return assemble(frames)


def assemble(frames: bytes) -> dict[str, Any]:
    """Put a finished message together from its events; raise the error that it ended with."""
    message: dict[str, Any] = {}
    for line in frames.split(b"\n"):
        if line.startswith(b"data: "):
            _apply(message, json.loads(line[6:]))
    return message


def _apply(message: dict[str, Any], event: dict[str, Any]) -> None:
    kind = event["type"]
    if kind == "message_start":
        message.update(event["message"])
    elif kind == "content_block_start":
        message["content"].append(event["content_block"])
    elif kind == "content_block_delta":
        message["content"][event["index"]]["text"] += event["delta"]["text"]
    elif kind == "message_delta":
        message.update(event["delta"])
        message["usage"] = message["usage"] | event["usage"]
    elif kind == "error":
        error = event["error"]
        raise (Timeout if error["type"] == "timeout_error" else ApiError)(error["message"])


def _text(content: Content) -> str:
    return content if isinstance(content, str) else "\n".join(block.text for block in content)


def _checked(body: B) -> B:
    for number, turn in enumerate(body.messages):
        if not _text(turn.content):
            raise InvalidRequest(f"messages[{number}].content: expected some text.")
    if body.messages[-1].role != "user":
        raise InvalidRequest("messages: the last must be the user's; answers begun by the caller are not supported.")
    return body
