"""Anthropic's Messages: the body as we accept it, and the finished message as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from common.decoding import convert, decode
from common.errors import InvalidRequest
from inference.protocol.events import PING
from inference.protocol.requests import Sampling
from streaming.schemas import JsonSchema
from streaming.surfaces.assembling import assemble as assemble
from streaming.surfaces.hints import Hint
from streaming.surfaces.tool_turns import MAX_TOOLS, TOOL_NAME, PendingCalls, Tools, add_turn
from streaming.wanted import Asked, Tool, ToolChoice, Turn, Wanted, random_seed


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
_UNSUPPORTED_IN_TOOL = {"allowed_callers", "defer_loading", "input_examples"}


def parse_messages(raw: bytes) -> MessagesBody:
    """Read the body of a message request; raise `InvalidRequest` naming the field."""
    return decode(_messages_decoder, raw, unsupported=_UNSUPPORTED, blocks=_BLOCKS)


def parse_count(raw: bytes) -> CountBody:
    """Read the body of a count request; raise `InvalidRequest` naming the field."""
    return decode(_count_decoder, raw, unsupported=_UNSUPPORTED, blocks=_BLOCKS)


def wanted(body: MessagesBody) -> Wanted:
    """Say what a body asks for; raise `InvalidRequest` naming the field that does not go with the others."""
    sampling = Sampling(temperature=body.temperature, top_p=body.top_p, top_k=body.top_k, seed=random_seed())
    tools = _tools(body)
    return Wanted(
        model=body.model,
        turns=conversation(body),
        tools=tools,
        choice=_choice(body, tools),
        output=_output(body),
        max_tokens=body.max_tokens,
        stop_sequences=tuple(body.stop_sequences),
        sampling=sampling,
    )


def asked(body: CountBody) -> Asked:
    """Say what a body shows a model; raise as `wanted` does."""
    tools = _tools(body)
    return Asked(turns=conversation(body), tools=tools, choice=_choice(body, tools), output=_output(body))


def conversation(body: PromptBody) -> list[Turn]:
    """Return the turns as a chat template takes them: system first, runs of one role joined."""
    if body.thread is not None:  # clients' tool runners ask for it, and go on without it when told so
        details = {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}
        raise InvalidRequest("thread: not supported here.", code="unsupported_parameter", details=details)
    turns: list[Turn] = []
    if body.system is not UNSET and body.system:
        turns.append({"role": "system", "content": _joined(body.system)})
    pending = PendingCalls()
    for number, message in enumerate(body.messages):
        where = f"messages[{number}].content"
        if not message.content:
            raise InvalidRequest(f"{where}: expected some text.")
        if message.role == "assistant":
            _add_answer(turns, message.content, pending, where)
        else:
            _add_question(turns, message.content, pending, where)
    if body.messages[-1].role != "user":
        raise InvalidRequest("messages: the last must be the user's; answers begun by the caller are not supported.")
    return turns


def _add_answer(turns: list[Turn], content: Content, pending: PendingCalls, where: str) -> None:
    texts, calls = [], []
    for number, block in enumerate(_blocks(content)):
        if isinstance(block, ToolUseBlock):
            calls.append(pending.call(block.id, block.name, block.input, f"{where}[{number}].id"))
        elif isinstance(block, ToolResultBlock):
            raise InvalidRequest(f"{where}[{number}].type: a tool_result is the user's to give.")
        else:
            texts.append(block)
    add_turn(turns, "assistant", _text(texts, where, may_be_empty=bool(calls)), calls)


def _add_question(turns: list[Turn], content: Content, pending: PendingCalls, where: str) -> None:
    texts: list[TextBlock] = []
    has_results = False
    for number, block in enumerate(_blocks(content)):
        if isinstance(block, ToolUseBlock):
            raise InvalidRequest(f"{where}[{number}].type: a tool_use is the assistant's to give.")
        if isinstance(block, TextBlock):
            texts.append(block)
            continue
        if texts:
            raise InvalidRequest(f"{where}[{number}].type: a tool_result comes before any text.")
        has_results = True
        said = _joined(block.content)
        result = f"Error: {said}" if block.is_error else said
        turns.append(pending.result(block.tool_use_id, result, f"{where}[{number}].tool_use_id"))
    pending.finish(where)
    if text := _text(texts, where, may_be_empty=has_results):
        add_turn(turns, "user", text)


def _tools(body: PromptBody) -> tuple[Tool, ...]:
    tools = Tools()
    for number, raw in enumerate(body.tools):
        where = f"tools[{number}]"
        if raw.get("type") not in (None, "custom"):
            raise InvalidRequest(f"{where}.type: {raw['type']!r}, a tool of the server's, is not supported here.")
        tool = convert(raw, ToolIn, where=where, unsupported=_UNSUPPORTED_IN_TOOL)
        tools.add(
            tool.name,
            description=tool.description,
            schema=tool.input_schema,
            strict=tool.strict,
            where=where,
            field="input_schema",
        )
    return tools.all()


def _choice(body: PromptBody, tools: tuple[Tool, ...]) -> ToolChoice:
    choice = body.tool_choice
    if choice is None or isinstance(choice, NoChoice):
        return ToolChoice(kind="none" if choice else "auto")
    if not tools:
        raise InvalidRequest("tool_choice: there are no tools to choose from.")
    parallel = not choice.disable_parallel_tool_use
    if isinstance(choice, AutoChoice):
        return ToolChoice(parallel=parallel)
    name = choice.name if isinstance(choice, NamedChoice) else ""
    if name and name not in (tool.name for tool in tools):
        raise InvalidRequest(f"tool_choice.name: there is no tool {name!r}.")
    return ToolChoice(kind="any", name=name, parallel=parallel)


def _output(body: PromptBody) -> JsonSchema | None:
    within_config = body.output_config.format if body.output_config else None
    if within_config and body.output_format:
        raise InvalidRequest("output_format: give it or output_config.format, not both.")
    if within_config:
        return JsonSchema.read(within_config.schema, "output_config.format.schema")
    return JsonSchema.read(body.output_format.schema, "output_format.schema") if body.output_format else None


class TypedEvents:
    """The log's own form: what is sent is what was written."""

    ping = PING

    def translate(self, frames: bytes) -> bytes:
        return frames

    def whole(self, frames: bytes) -> dict[str, Any]:
        return assemble(frames)


def _blocks(content: Content) -> Sequence[TextBlock | ToolUseBlock | ToolResultBlock]:
    return [TextBlock(content)] if isinstance(content, str) else content


def _joined(content: str | Sequence[TextBlock | OnlyText]) -> str:
    return content if isinstance(content, str) else "\n".join(block.text for block in content)


def _text(blocks: list[TextBlock], where: str, *, may_be_empty: bool) -> str:
    text = _joined(blocks)
    if not (text or may_be_empty):
        raise InvalidRequest(f"{where}: expected some text.")
    return text
