"""Anthropic's Messages: the body as we accept it, and the finished message as JSON."""

from __future__ import annotations

import json
import re
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from common.errors import ApiError, InvalidRequest, Timeout

T = TypeVar("T")
B = TypeVar("B", "MessagesBody", "CountBody")

# Hints that cannot change what the answer means: taken, and nothing comes of them here.
Hint = Any


class TextBlock(Struct, forbid_unknown_fields=True, tag_field="type", tag="text"):
    """A block of text."""

    text: str
    cache_control: Hint = None
    citations: None = None


Content = str | list[TextBlock]


class Turn(Struct, forbid_unknown_fields=True):
    """One message of the conversation."""

    role: Literal["user", "assistant"]
    content: Content


class ThinkingDisabled(Struct, forbid_unknown_fields=True):
    """The only `thinking` we take: none."""

    type: Literal["disabled"]


class MessagesBody(Struct, forbid_unknown_fields=True, kw_only=True):
    """The body of POST /v1/messages and /v1/streams."""

    model: str
    messages: Annotated[list[Turn], Meta(min_length=1)]
    max_tokens: Annotated[int, Meta(ge=1)]
    system: Content | UnsetType = UNSET
    stream: bool = False
    temperature: Annotated[float, Meta(ge=0, le=1)] = 1.0
    top_p: Annotated[float, Meta(gt=0, le=1)] = 1.0
    top_k: Annotated[int, Meta(ge=0)] = 0
    stop_sequences: Annotated[list[Annotated[str, Meta(min_length=1)]], Meta(max_length=16)] = []
    thinking: ThinkingDisabled | None = None
    metadata: Hint = None
    service_tier: Hint = None
    cache_control: Hint = None


class CountBody(Struct, forbid_unknown_fields=True, kw_only=True):
    """The body of POST /v1/messages/count_tokens."""

    model: str
    messages: Annotated[list[Turn], Meta(min_length=1)]
    system: Content | UnsetType = UNSET
    thinking: ThinkingDisabled | None = None
    cache_control: Hint = None


_messages_decoder = msgspec.json.Decoder(MessagesBody)
_count_decoder = msgspec.json.Decoder(CountBody)

_UNSUPPORTED = {"tools", "tool_choice", "thinking", "mcp_servers", "container", "output_config", "output_format"}


def parse_messages(raw: bytes) -> MessagesBody:
    """Read the body of a message request; raise `InvalidRequest` naming the field."""
    return _checked(_decode(_messages_decoder, raw))


def parse_count(raw: bytes) -> CountBody:
    """Read the body of a count request; raise `InvalidRequest` naming the field."""
    return _checked(_decode(_count_decoder, raw))


def conversation(body: MessagesBody | CountBody) -> list[dict[str, str]]:
    """Return the turns as a chat template takes them: system first, runs of one role joined."""
    turns: list[dict[str, str]] = []
    if body.system is not UNSET and body.system:
        turns.append({"role": "system", "content": _text(body.system)})
    for turn in body.messages:
        if turns and turns[-1]["role"] == turn.role:
            turns[-1]["content"] += "\n" + _text(turn.content)
        else:
            turns.append({"role": turn.role, "content": _text(turn.content)})
    return turns


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


def _decode(decoder: msgspec.json.Decoder[T], raw: bytes) -> T:
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError as error:
        raise InvalidRequest(explain(str(error))) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"The body is not valid JSON: {error}.") from None


def explain(message: str) -> str:
    """Turn msgspec's sentence around, so that it begins with the field."""
    text, _, path = message.partition(" - at `$")
    path = path.rstrip("`").lstrip(".")
    if found := re.search(r"(unknown|missing required) field `(.+)`", text):
        field = ".".join(part for part in (path, found[2]) if part)
        if found[1] != "unknown":
            return f"{field}: this field is required."
        known = "not supported here" if found[2] in _UNSUPPORTED else "no such field"
        return f"{field}: {known}."
    return f"{path}: {text[0].lower()}{text[1:]}." if path else f"The body: {text[0].lower()}{text[1:]}."
