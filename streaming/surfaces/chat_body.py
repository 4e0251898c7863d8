"""OpenAI's chat completions: the body as we accept it."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from common.decoding import decode
from common.errors import InvalidRequest
from inference.protocol.requests import Sampling
from streaming.schemas import JsonSchema
from streaming.surfaces.hints import Hint
from streaming.surfaces.tool_turns import MAX_TOOLS, TOOL_NAME, PendingCalls, Tools, add_turn
from streaming.wanted import Tool, ToolChoice, Turn, Wanted, random_seed

# What a function without `parameters` takes, and any object.
NO_PARAMETERS = {"type": "object", "properties": {}, "additionalProperties": False}
ANY_OBJECT = {"type": "object"}


class TextPart(Struct, forbid_unknown_fields=True):
    """A part of a message's content: text, the only kind taken."""

    type: Literal["text"]
    text: str


class FunctionCall(Struct, forbid_unknown_fields=True):
    """The function that was called, and its arguments as JSON."""

    name: Annotated[str, Meta(pattern=TOOL_NAME)]
    arguments: str


class CallIn(Struct, forbid_unknown_fields=True):
    """A call in an answer."""

    id: Annotated[str, Meta(min_length=1)]
    type: Literal["function"]
    function: FunctionCall


class ChatMessage(Struct, forbid_unknown_fields=True):
    """One message of the conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[TextPart] | None = None
    tool_calls: list[CallIn] | None = None
    tool_call_id: str | None = None
    name: Hint = None
    # What answers have that are given back as they were, and that asks for nothing:
    refusal: None = None
    audio: None = None
    function_call: None = None
    annotations: Annotated[list[Any], Meta(max_length=0)] | None = None

    @property
    def text(self) -> str:
        if isinstance(self.content, str):
            return self.content
        return "\n".join(part.text for part in self.content or ())


class Function(Struct, forbid_unknown_fields=True):
    """A function that the answer may call."""

    name: Annotated[str, Meta(pattern=TOOL_NAME)]
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class ToolIn(Struct, forbid_unknown_fields=True):
    """A tool; functions are the only kind taken."""

    type: Literal["function"]
    function: Function


class FunctionName(Struct, forbid_unknown_fields=True):
    """A function by its name."""

    name: str


class NamedChoice(Struct, forbid_unknown_fields=True):
    """The model has to call this function."""

    type: Literal["function"]
    function: FunctionName


class TextFormat(Struct, tag="text", tag_field="type", forbid_unknown_fields=True):
    """An answer in any form."""


class ObjectFormat(Struct, tag="json_object", tag_field="type", forbid_unknown_fields=True):
    """An answer that is a JSON object."""


class NamedSchema(Struct, forbid_unknown_fields=True):
    """The schema of an answer. We hold to it whether `strict` is asked for or not."""

    name: str
    schema: dict[str, Any]
    description: Hint = None
    strict: bool | None = None


class SchemaFormat(Struct, tag="json_schema", tag_field="type", forbid_unknown_fields=True):
    """An answer that is JSON of a schema."""

    json_schema: NamedSchema


class StreamOptions(Struct, forbid_unknown_fields=True):
    """What a stream carries besides text."""

    include_usage: bool = False
    include_obfuscation: bool = False


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
    tools: Annotated[list[ToolIn], Meta(max_length=MAX_TOOLS)] | None = None
    tool_choice: Literal["none", "auto", "required"] | NamedChoice | None = None
    parallel_tool_calls: bool | None = None
    response_format: TextFormat | ObjectFormat | SchemaFormat | None = None
    # Values that ask for nothing:
    n: Literal[1] | None = None
    logprobs: Literal[False] | None = None
    frequency_penalty: Annotated[float, Meta(ge=0, le=0)] | None = None
    presence_penalty: Annotated[float, Meta(ge=0, le=0)] | None = None
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
    "n", "logprobs", "functions", "function_call", "logit_bias", "top_logprobs", "modalities", "audio", "prediction",
    "reasoning_effort", "web_search_options",
}  # fmt: skip


def parse_chat(raw: bytes) -> ChatBody:
    """Read the body; raise `InvalidRequest` naming the field."""
    return decode(_decoder, raw, unsupported=_UNSUPPORTED)


def wanted(body: ChatBody) -> Wanted:
    """Say what a body asks for; raise `InvalidRequest` naming the field that does not go with the others."""
    if body.max_tokens is not None and body.max_completion_tokens is not None:
        raise InvalidRequest("max_tokens: give it or max_completion_tokens, not both.")
    stops = [body.stop] if isinstance(body.stop, str) else body.stop or []
    sampling = Sampling(
        temperature=1.0 if body.temperature is None else body.temperature,
        top_p=1.0 if body.top_p is None else body.top_p,
        seed=random_seed() if body.seed is None else body.seed & (1 << 63) - 1,
    )
    tools = _tools(body)
    return Wanted(
        model=body.model,
        turns=_turns(body),
        tools=tools,
        choice=_choice(body, tools),
        output=_output(body),
        max_tokens=body.max_tokens or body.max_completion_tokens,
        stop_sequences=tuple(stop for stop in stops if stop),
        sampling=sampling,
    )


def _turns(body: ChatBody) -> list[Turn]:
    turns: list[Turn] = []
    pending = PendingCalls()
    for number, message in enumerate(body.messages):
        where = f"messages[{number}]"
        if message.tool_calls and message.role != "assistant":
            raise InvalidRequest(f"{where}.tool_calls: only the assistant's messages have them.")
        if (message.tool_call_id is not None) != (message.role == "tool"):
            raise InvalidRequest(f"{where}.tool_call_id: a tool's messages have it, and no others.")
        if message.role == "tool":
            turns.append(pending.result(message.tool_call_id or "", message.text, f"{where}.tool_call_id"))
            continue
        pending.finish(where)
        if not message.text and not message.tool_calls:
            raise InvalidRequest(f"{where}.content: expected some text.")
        role = "system" if message.role == "developer" else message.role
        add_turn(turns, role, message.text, _calls(message, pending, f"{where}.tool_calls"))
    pending.finish("messages")
    if body.messages[-1].role not in ("user", "tool"):
        raise InvalidRequest("messages: the last must be the user's, or a tool's.")
    return turns


def _calls(message: ChatMessage, pending: PendingCalls, where: str) -> list[dict[str, Any]]:
    return [
        pending.call(call.id, call.function.name, _arguments(call, f"{where}[{number}]"), f"{where}[{number}].id")
        for number, call in enumerate(message.tool_calls or ())
    ]


def _arguments(call: CallIn, where: str) -> dict[str, Any]:
    try:
        arguments = json.loads(call.function.arguments or "{}")
    except (ValueError, RecursionError):
        arguments = None
    if not isinstance(arguments, dict):
        raise InvalidRequest(f"{where}.function.arguments: expected a JSON object, as a string.")
    return arguments


def _tools(body: ChatBody) -> tuple[Tool, ...]:
    tools = Tools()
    for number, given in enumerate(body.tools or ()):
        function, where = given.function, f"tools[{number}].function"
        tools.add(
            function.name,
            description=function.description,
            schema=ANY_OBJECT | (NO_PARAMETERS if function.parameters is None else function.parameters),
            strict=function.strict,
            where=where,
            field="parameters",
        )
    return tools.all()


def _choice(body: ChatBody, tools: tuple[Tool, ...]) -> ToolChoice:
    choice, parallel = body.tool_choice, body.parallel_tool_calls is not False
    if choice == "none":
        return ToolChoice(kind="none")
    if not tools and choice is not None:
        raise InvalidRequest("tool_choice: there are no tools to choose from.")
    if isinstance(choice, NamedChoice):
        name = choice.function.name
        if name not in (tool.name for tool in tools):
            raise InvalidRequest(f"tool_choice.function.name: there is no tool {name!r}.")
        return ToolChoice(kind="any", name=name, parallel=parallel)
    return ToolChoice(kind="any" if choice == "required" else "auto", parallel=parallel)


def _output(body: ChatBody) -> JsonSchema | None:
    form = body.response_format
    if isinstance(form, ObjectFormat):
        return JsonSchema.read(ANY_OBJECT, "response_format")
    if isinstance(form, SchemaFormat):
        return JsonSchema.read(form.json_schema.schema, "response_format.json_schema.schema")
    return None
