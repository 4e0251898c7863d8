"""What holds the answer to a request: the tools that it may call, and the grammar that it has to keep to."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from common.errors import InvalidRequest
from inference.protocol.requests import Grammar
from inference.protocol.tools import FORMATS, ToolUse
from streaming.grammars import CallGrammar, output_grammar, problem_with
from streaming.prompts import PromptTemplate
from streaming.schemas import Body, JsonSchema
from streaming.wanted import Tool, Wanted

ANY_OBJECT: Body = {"type": "object"}


@dataclass(frozen=True, slots=True)
class Hold:
    """What a worker is told: how calls are read, where there can be any, and what the answer is held to."""

    tools: ToolUse | None = None
    grammar: Grammar | None = None


async def hold_to(wanted: Wanted, template: PromptTemplate) -> Hold:
    """Return what holds an answer to what is wanted; raise `InvalidRequest` naming what it cannot be held to."""
    if not wanted.tools and wanted.output is None:
        return Hold()
    return await asyncio.to_thread(_hold_to, wanted, template)  # compiling a schema may take a while


def _hold_to(wanted: Wanted, template: PromptTemplate) -> Hold:
    output = _checked(wanted.output) if wanted.output else None
    inputs = {tool.name: _input(tool, is_forced=wanted.choice.kind == "any") for tool in wanted.callable_tools}
    form, parallel = FORMATS[template.tool_format], wanted.choice.parallel and not wanted.choice.name
    calls = CallGrammar(form, inputs, template.marks)
    if not inputs:
        return Hold(
            grammar=Grammar(calls.none(), required=False) if output is None else Grammar(output_grammar(output))
        )
    if wanted.choice.kind == "any":
        grammar = Grammar(calls.forced(parallel=parallel))
    elif output is not None:
        grammar = Grammar(calls.forced(parallel=parallel, output=output))
    else:
        is_strict = any(tool.strict for tool in wanted.callable_tools)
        grammar = Grammar(calls.free(parallel=parallel), required=is_strict)
    return Hold(ToolUse(format=template.tool_format, names=tuple(inputs), parallel=parallel), grammar)


def _input(tool: Tool, *, is_forced: bool) -> Body:
    """Return the schema that a tool's input is held to.

    Where nobody asked for that, what we cannot hold to is what the model was told, and no more.
    """
    if tool.strict or is_forced:
        return _checked(tool.schema)
    return ANY_OBJECT if _obstacle(tool.schema) else tool.schema.body


def _checked(schema: JsonSchema) -> Body:
    if obstacle := _obstacle(schema):
        raise InvalidRequest(obstacle)
    return schema.body


def _obstacle(schema: JsonSchema) -> str:
    if schema.obstacle:
        return schema.obstacle
    problem = problem_with(output_grammar(schema.body))
    return problem and f"{schema.where}: no answer can be held to it: {problem}."
