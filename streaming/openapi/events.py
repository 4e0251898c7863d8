"""The events of a stream: one schema for each, as it stands in a frame of SSE."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from api.openapi.common import ERROR_SCHEMAS, ref
from inference.protocol.outcomes import StopReason
from streaming.openapi.answers import (
    CachedTokens,
    ChatUsage,
    Count,
    FinishReason,
    MessageId,
    SafetyDetails,
    TextAnswer,
    Usage,
)
from streaming.openapi.structs import schemas_of

Json = dict[str, Any]
Index = Annotated[int, Meta(ge=0, description="Which block of the content it is about.")]


class BegunMessage(Struct, tag="message", tag_field="type"):
    """A message that has just begun."""

    id: MessageId
    role: Literal["assistant"]
    model: str
    content: Annotated[list[Any], Meta(max_length=0)]
    stop_reason: None
    stop_sequence: None
    usage: Usage


class BegunToolCall(Struct, tag="tool_use", tag_field="type"):
    """A call whose input follows."""

    id: str
    name: str
    input: Annotated[dict[str, Any], Meta(max_length=0)]


class TextDelta(Struct, tag="text_delta", tag_field="type"):
    """More text."""

    text: Annotated[str, Meta(min_length=1)]


class InputJsonDelta(Struct, tag="input_json_delta", tag_field="type"):
    """More of a call's input, as JSON; the parts together are whole."""

    partial_json: Annotated[str, Meta(min_length=1)]


class Ending(Struct):
    """Why a message ended."""

    stop_reason: StopReason | Literal["refusal"]
    stop_sequence: str | None
    stop_details: SafetyDetails | UnsetType = UNSET


class Fault(Struct):
    """What went wrong."""

    type: str
    message: str


class MessageStart(Struct, tag="message_start", tag_field="type"):
    """The first event. Coming again, on a resumed stream, it starts the message anew."""

    message: BegunMessage


class ContentBlockStart(Struct, tag="content_block_start", tag_field="type"):
    """A block begins."""

    index: Index
    content_block: TextAnswer | BegunToolCall


class ContentBlockDelta(Struct, tag="content_block_delta", tag_field="type"):
    """A block goes on. Whole characters, never an empty text."""

    index: Index
    delta: TextDelta | InputJsonDelta


class ContentBlockStop(Struct, tag="content_block_stop", tag_field="type"):
    """A block is whole."""

    index: Index


class MessageDelta(Struct, tag="message_delta", tag_field="type"):
    """Why the message ended, and its usage in all."""

    delta: Ending
    usage: Usage


class MessageStop(Struct, tag="message_stop", tag_field="type"):
    """The end of a message that came to one."""


class ErrorEvent(Struct, tag="error", tag_field="type"):
    """The end of a message that failed, or of what this gateway can say of it (without an id)."""

    error: Fault


class Ping(Struct, tag="ping", tag_field="type"):
    """Nothing was sent for a while, and the connection is alive. Has no id."""


class ServerShutdown(Struct, tag="server_shutdown", tag_field="type"):
    """This gateway stops and the message goes on: read on at another. Has no id."""


EVENTS = (
    *(MessageStart, ContentBlockStart, ContentBlockDelta, ContentBlockStop, MessageDelta, MessageStop),
    *(ErrorEvent, Ping, ServerShutdown),
)
WITHOUT_ID = (Ping, ServerShutdown)


class ChunkCallFunction(Struct):
    """The function's name at first, then more of its arguments."""

    arguments: str
    name: str | UnsetType = UNSET


class ChunkCall(Struct):
    """A call that begins, or goes on."""

    index: Count
    function: ChunkCallFunction
    id: str | UnsetType = UNSET
    type: Literal["function"] | UnsetType = UNSET


class ChunkDelta(Struct):
    """What is new."""

    role: Literal["assistant"] | UnsetType = UNSET
    content: str | UnsetType = UNSET
    tool_calls: list[ChunkCall] | UnsetType = UNSET


class ChunkChoice(Struct):
    """The one answer, as far as it goes."""

    index: Literal[0]
    delta: ChunkDelta
    logprobs: None
    finish_reason: FinishReason | None


class CompletionChunk(Struct):
    """A part of an answer. With `stream_options.include_usage` the last one has `usage` and no choices."""

    id: MessageId
    object: Literal["chat.completion.chunk"]
    created: int
    model: str
    choices: Annotated[list[ChunkChoice], Meta(max_length=1)]
    usage: ChatUsage | UnsetType | None = UNSET


def event_schemas() -> Json:
    """Return the events by name, the frames that carry them as `StreamEvent`, and OpenAI's as `ChatStreamEvent`."""
    frames = {f"{event.__name__}Frame": _frame(event) for event in EVENTS}
    return {
        **schemas_of(*EVENTS, CompletionChunk, CachedTokens),
        **frames,
        "StreamEvent": {
            "description": "One event of a message: a frame of SSE, its `data` JSON with the same `type`.",
            "oneOf": [ref(name) for name in frames],
        },
        "ChatStreamEvent": {
            "type": "object",
            "description": "One chunk in OpenAI's form: frames without names or ids; the last one says `[DONE]`, or "
            "tells of an error.",
            "properties": {
                "data": {
                    "anyOf": [
                        _json_text(ref("CompletionChunk")),
                        {"type": "string", "const": "[DONE]"},
                        _json_text(ERROR_SCHEMAS["OpenAIError"] | {"examples": []}),
                    ]
                }
            },
            "required": ["data"],
        },
    }


def _frame(event: type[Struct]) -> Json:
    """Return the schema of the frame that carries an event, in the shape of OpenAPI 3.2's."""
    name = event.__struct_config__.tag
    properties: Json = {
        "event": {"type": "string", "const": name},
        "data": _json_text(ref(event.__name__)),
    }
    if event not in WITHOUT_ID:
        properties["id"] = {"type": "string", "pattern": "^[0-9]+$", "description": "Its position, to resume after."}
    if event is MessageStart:
        properties["retry"] = {"type": "integer", "description": "In how many ms EventSource is to come back."}
    return {"type": "object", "properties": properties, "required": ["event", "data"]}


def _json_text(schema: Json) -> Json:
    return {"type": "string", "contentMediaType": "application/json", "contentSchema": schema}
