"""What a caller wants, whatever form it was said in."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from inference.protocol.requests import Sampling
from streaming.schemas import JsonSchema

# As chat templates take it: role and content, an assistant's `tool_calls`, a tool's `tool_call_id` and `name`.
Turn = dict[str, Any]


def random_seed() -> int:
    """Return a seed for a request that named none."""
    return secrets.randbits(63)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool that the answer may call. `strict` asks that its input be held to the schema."""

    name: str
    description: str = ""
    schema: JsonSchema
    strict: bool = False

    def describe(self) -> dict[str, Any]:
        """Return what a model is shown of it, in the form that chat templates take."""
        function = {"name": self.name, "description": self.description, "parameters": self.schema.body}
        return {"type": "function", "function": function}


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolChoice:
    """Whether the answer may call tools, has to, and which `name` alone. Without `parallel` it ends with a call."""

    kind: Literal["auto", "any", "none"] = "auto"
    name: str = ""
    parallel: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a model is shown of a request; `output` is the schema of a JSON answer."""

    turns: list[Turn]
    tools: tuple[Tool, ...] = ()
    choice: ToolChoice = field(default_factory=ToolChoice)
    output: JsonSchema | None = None

    @property
    def shown_tools(self) -> list[dict[str, Any]]:
        """The tools, unless the answer may call none."""
        return [] if self.choice.kind == "none" else [tool.describe() for tool in self.tools]

    @property
    def callable_tools(self) -> tuple[Tool, ...]:
        """The tools that the answer may call."""
        if self.choice.kind == "none":
            return ()
        return tuple(tool for tool in self.tools if self.choice.name in ("", tool.name))

    @property
    def texts(self) -> tuple[str, ...]:
        """The caller's own words: those on tools first, the last turn last."""
        said = [turn["content"] for turn in self.turns if turn["role"] != "assistant"]
        return (*("\n".join(_strings(tool)) for tool in self.shown_tools), *said)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted(Asked):
    """A message to be generated. `max_tokens` None means as many as fit."""

    model: str
    max_tokens: int | None
    stop_sequences: tuple[str, ...] = ()
    sampling: Sampling = field(default_factory=lambda: Sampling(seed=random_seed()))


def _strings(value: Any) -> Iterator[str]:
    """Yield all strings in a JSON value as they are: what is escaped would hide from checks."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield name
            yield from _strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)
