"""Anthropic's Messages: what a body asks for, and the finished message as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import UNSET

from common.decoding import convert
from common.errors import InvalidRequest
from inference.protocol.events import PING
from inference.protocol.requests import Sampling
from streaming.schemas import JsonSchema
from streaming.surfaces.assembling import assemble as assemble
from streaming.surfaces.messages_body import (
    AutoChoice,
    Content,
    CountBody,
    MessagesBody,
    NamedChoice,
    NoChoice,
    OnlyText,
    PromptBody,
    TextBlock,
    ToolIn,
    ToolResultBlock,
    ToolUseBlock,
)  # fmt: skip
from streaming.surfaces.tool_turns import PendingCalls, Tools, add_turn
from streaming.wanted import Asked, Tool, ToolChoice, Turn, Wanted, random_seed

_UNSUPPORTED_IN_TOOL = {"allowed_callers", "defer_loading", "input_examples"}


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
