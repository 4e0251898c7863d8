"""How models write tool calls: what a gateway asks for, and what a worker reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Self

FormatName = Literal["hermes", "llama3", "mistral", "mistral_named"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFormat:
    """The form of the calls of a family of models.

    A call is an object of a name and `arguments`, or with `named` the name itself, `arguments_mark`, and the arguments.
    With `listed` the objects stand in an array, with `bare` one may begin the text without the opening mark.
    """

    opening: str
    closing: str = ""
    arguments: tuple[str, ...] = ("arguments",)  # the first is the usual one
    listed: bool = False
    bare: bool = False
    named: bool = False
    arguments_mark: str = ""
    id_mark: str = ""  # between name and arguments some write the call's id

    @property
    def marks(self) -> tuple[str, ...]:
        """What may be control tokens, whose text has to be seen."""
        return tuple(filter(None, (self.opening, self.closing, self.arguments_mark, self.id_mark)))


FORMATS: dict[FormatName, ToolFormat] = {
    # <tool_call>\n{"name": "f", "arguments": {…}}\n</tool_call>, once for each call
    "hermes": ToolFormat(opening="<tool_call>", closing="</tool_call>"),
    # {"name": "f", "parameters": {…}}, with or without the mark
    "llama3": ToolFormat(opening="<|python_tag|>", arguments=("parameters", "arguments"), bare=True),
    # [TOOL_CALLS] [{"name": "f", "arguments": {…}}, …]
    "mistral": ToolFormat(opening="[TOOL_CALLS]", listed=True),
    # [TOOL_CALLS]f[ARGS]{…}, once for each call
    "mistral_named": ToolFormat(
        opening="[TOOL_CALLS]", named=True, arguments_mark="[ARGS]", id_mark="[CALL_ID]"
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUse:
    """The tools that an answer may call. Without `parallel` it ends with the first call."""

    format: FormatName
    names: tuple[str, ...]
    parallel: bool = True

    @classmethod
    def decode(cls, body: dict[str, Any]) -> Self:
        """Read what `asdict` made; raise `ValueError` on a format that we do not know."""
        if body["format"] not in FORMATS:
            raise ValueError("an unknown tool format")
        return cls(format=body["format"], names=tuple(body["names"]), parallel=body["parallel"])
