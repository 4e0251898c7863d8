"""The body of Anthropic's Messages, as we accept it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from common.decoding import decode
from streaming.surfaces.hints import Hint
from streaming.surfaces.tool_turns import MAX_TOOLS, TOOL_NAME


class TextBlock(Struct, tag="text", tag_field="type", forbid_unknown_fields=True):
    """A block of text."""

    text: str
    cache_control: Hint = None
    citations: None = None


class OnlyText(Struct, forbid_unknown_fields=True):
    """A block of text where no other kind is taken. (A tag would be optional there.)"""

    type: Literal["text"]
    text: str
    cache_control: Hint = None
    citations: None = None


class ToolUseBlock(Struct, tag="tool_use", tag_field="type", forbid_unknown_fields=True):
    """A call in an answer."""

    id: Annotated[str, Meta(min_length=1)]
    name: Annotated[str, Meta(pattern=TOOL_NAME)]
    input: dict[str, Any]
    cache_control: Hint = None
    caller: Hint = None


class ToolResultBlock(Struct, tag="tool_result", tag_field="type", forbid_unknown_fields=True):
    """A call's result."""

    tool_use_id: str
    content: str | list[OnlyText] = ""
    is_error: bool | None = None
    cache_control: Hint = None


Text = str | list[OnlyText]
Content = str | list[TextBlock | ToolUseBlock | ToolResultBlock]


class MessageIn(Struct, forbid_unknown_fields=True):
    """One message of the conversation."""

    role: Literal["user", "assistant"]
    content: Content


class ToolIn(Struct, forbid_unknown_fields=True, kw_only=True):
    """A tool of the caller's own."""

    name: Annotated[str, Meta(pattern=TOOL_NAME)]
    input_schema: dict[str, Any]
    description: str | None = None
    type: Literal["custom"] | None = None
    strict: bool | None = None
    # Values that ask for nothing:
    allowed_callers: list[Literal["direct"]] | None = None
    defer_loading: Literal[False] | None = None
    input_examples: Annotated[list[Any], Meta(max_length=0)] | None = None
    # Hints:
    cache_control: Hint = None
    eager_input_streaming: Hint = None


class AutoChoice(Struct, tag="auto", tag_field="type", forbid_unknown_fields=True):
    """The model calls what it likes."""

    disable_parallel_tool_use: bool = False


class AnyChoice(Struct, tag="any", tag_field="type", forbid_unknown_fields=True):
    """The model has to call a tool."""

    disable_parallel_tool_use: bool = False


class NamedChoice(Struct, tag="tool", tag_field="type", forbid_unknown_fields=True):
    """The model has to call this tool."""

    name: str
    disable_parallel_tool_use: bool = False


class NoChoice(Struct, tag="none", tag_field="type", forbid_unknown_fields=True):
    """The model calls no tool."""


class JsonFormat(Struct, forbid_unknown_fields=True):
    """An answer that is JSON of a schema."""

    type: Literal["json_schema"]
    schema: dict[str, Any]


class OutputConfig(Struct, forbid_unknown_fields=True, kw_only=True):
    """How the answer shall look."""

    format: JsonFormat | None = None
    effort: None = None


class ThinkingDisabled(Struct, forbid_unknown_fields=True):
    """The only `thinking` we take: none."""

    type: Literal["disabled"]


class PromptBody(Struct, forbid_unknown_fields=True, kw_only=True):
    """What both bodies hold: all that makes the prompt."""

    model: str
    messages: Annotated[list[MessageIn], Meta(min_length=1)]
    system: Text | UnsetType = UNSET
    tools: Annotated[list[dict[str, Any]], Meta(max_length=MAX_TOOLS)] = []
    tool_choice: AutoChoice | AnyChoice | NamedChoice | NoChoice | None = None
    output_config: OutputConfig | None = None
    output_format: JsonFormat | None = None  # its name before it came to output_config
    thread: Any = None  # refused, in the way that clients know
    # Values that ask for nothing:
    thinking: ThinkingDisabled | None = None
    mcp_servers: Annotated[list[Any], Meta(max_length=0)] = []
    # Hints:
    cache_control: Hint = None


class MessagesBody(PromptBody, forbid_unknown_fields=True, kw_only=True):
    """The body of POST /v1/messages and /v1/streams."""

    max_tokens: Annotated[int, Meta(ge=1)]
    stream: bool = False
    temperature: Annotated[float, Meta(ge=0, le=1)] = 1.0
    top_p: Annotated[float, Meta(gt=0, le=1)] = 1.0
    top_k: Annotated[int, Meta(ge=0)] = 0
    stop_sequences: Annotated[list[Annotated[str, Meta(min_length=1)]], Meta(max_length=16)] = []
    # Values that ask for nothing:
    container: None = None
    # Hints:
    metadata: Hint = None
    service_tier: Hint = None


class CountBody(PromptBody, forbid_unknown_fields=True, kw_only=True):
    """The body of POST /v1/messages/count_tokens."""


_messages_decoder = msgspec.json.Decoder(MessagesBody)
_count_decoder = msgspec.json.Decoder(CountBody)

_UNSUPPORTED = {"thinking", "mcp_servers", "container", "effort"}
_BLOCKS = "only text, tool_use and tool_result are supported"


def parse_messages(raw: bytes) -> MessagesBody:
    """Read the body of a message request; raise `InvalidRequest` naming the field."""
    return decode(_messages_decoder, raw, unsupported=_UNSUPPORTED, blocks=_BLOCKS)


def parse_count(raw: bytes) -> CountBody:
    """Read the body of a count request; raise `InvalidRequest` naming the field."""
    return decode(_count_decoder, raw, unsupported=_UNSUPPORTED, blocks=_BLOCKS)
