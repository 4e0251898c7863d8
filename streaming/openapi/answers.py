"""What the gateway answers with, as structs whose schemas /v1/openapi.json shows."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from inference.protocol.outcomes import Outcome, StopReason

Count = Annotated[int, Meta(ge=0)]
MessageId = Annotated[str, Meta(description="The message's id: its stream's, and its record's, too.")]
Time = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]


class Usage(Struct):
    """Tokens, counted where they are made. `input_tokens` leaves out what the prefix cache had."""

    input_tokens: Count
    output_tokens: Count
    cache_read_input_tokens: Count | UnsetType = UNSET


class TextAnswer(Struct, tag="text", tag_field="type"):
    """A block of text."""

    text: str


class ToolCall(Struct, tag="tool_use", tag_field="type"):
    """A call of one of the caller's tools."""

    id: str
    name: str
    input: dict[str, Any]


class SafetyDetails(Struct):
    """Which check ended the answer, and for what."""

    type: Literal["safety", "refusal"]
    category: str
    explanation: None
    check: str


class Message(Struct, tag="message", tag_field="type"):
    """A finished message."""

    id: MessageId
    role: Literal["assistant"]
    model: str
    content: list[TextAnswer | ToolCall]
    stop_reason: Annotated[
        StopReason | Literal["refusal"],
        Meta(
            description="Why it ended. Besides Anthropic's: `safety` (a check ended it), `cancelled` and "
            "`server_shutdown`."
        ),
    ]
    stop_sequence: Annotated[str | None, Meta(description="The stop sequence that ended it.")]
    usage: Usage
    stop_details: SafetyDetails | UnsetType = UNSET


class TokenCount(Struct):
    """How many tokens a prompt has."""

    input_tokens: Count


class Model(Struct, tag="model", tag_field="type"):
    """A model that is served now, in a form that Anthropic's and OpenAI's clients read."""

    id: str
    display_name: str
    created_at: Time
    max_input_tokens: Annotated[int, Meta(description="The longest prompt and answer together, in tokens.")]
    object: Literal["model"]
    created: Annotated[int, Meta(description="The same as `created_at`, in seconds since 1970.")]
    owned_by: str


class ModelPage(Struct):
    """Models, the first of which `default` stands for."""

    object: Literal["list"]
    data: list[Model]
    has_more: bool
    first_id: str | None
    last_id: str | None


class Detached(Struct):
    """A message that goes on by itself, and where to read it."""

    id: MessageId
    stream_url: Annotated[str, Meta(description="Its stream, with a token for this one stream: for EventSource.")]
    message_url: Annotated[str, Meta(description="The whole message, once it is finished.")]
    expires_at: Annotated[int, Meta(description="Until when the token is good, in seconds since 1970.")]


class Running(Struct):
    """A message that is not finished yet."""

    id: MessageId
    status: Literal["running"]


class Cancelled(Struct):
    """A message that is being cancelled, or had ended otherwise, and how."""

    id: MessageId
    status: Literal["cancelled", "ended"]
    outcome: Outcome | UnsetType = UNSET


class Health(Struct):
    """Whether the process, or the service, is well."""

    status: Annotated[str, Meta(description="`ok`, or what is in the way.")]


class ChatToolCallFunction(Struct):
    """The function, and its arguments as JSON within a string."""

    name: str
    arguments: str


class ChatToolCall(Struct):
    """A call of one of the caller's functions."""

    id: str
    type: Literal["function"]
    function: ChatToolCallFunction


class ChatAnswer(Struct):
    """What the model said."""

    role: Literal["assistant"]
    content: str | None
    refusal: None
    tool_calls: list[ChatToolCall] | UnsetType = UNSET


FinishReason = Literal["stop", "length", "tool_calls", "content_filter"]


class ChatChoice(Struct):
    """The one answer."""

    index: Literal[0]
    message: ChatAnswer
    logprobs: None
    finish_reason: FinishReason


class CachedTokens(Struct):
    """Of the prompt."""

    cached_tokens: Count


class ChatUsage(Struct):
    """Tokens, the cached ones within those of the prompt."""

    prompt_tokens: Count
    completion_tokens: Count
    total_tokens: Count
    prompt_tokens_details: CachedTokens


class Completion(Struct):
    """A finished answer in OpenAI's form."""

    id: MessageId
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[ChatChoice]
    usage: ChatUsage


ANSWERS = (Message, TokenCount, Model, ModelPage, Detached, Running, Cancelled, Health, Completion)
