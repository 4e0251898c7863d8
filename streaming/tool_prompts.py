"""Tools in prompts: the format in which a chat template writes calls, and what to say where it writes none."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from inference.protocol.tools import FormatName

Turn = dict[str, Any]

# Written in the way of Hermes and Qwen, which a model without a way of its own is shown, too.
FALLBACK: FormatName = "hermes"

_NAME, _INPUT, _RESULT = "probe_tool", {"probe_key": "probe value"}, "probe result"
PROBE_TOOLS = [
    {"type": "function", "function": {"name": _NAME, "description": "Probes.", "parameters": {"type": "object"}}}
]
PROBE: list[Turn] = [
    {"role": "user", "content": "Hello"},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"type": "function", "id": "probecall", "function": {"name": _NAME, "arguments": _INPUT}}],
    },
    {"role": "tool", "tool_call_id": "probecall", "name": _NAME, "content": _RESULT},
]

_WRITTEN_NAME = rf'"name":\s*"{_NAME}"'
_WRITTEN_INPUT = r'\{\s*"probe_key":\s*"probe value"\s*\}'
_WITH_ARGUMENTS = rf'\{{\s*{_WRITTEN_NAME},\s*"arguments":\s*{_WRITTEN_INPUT}'
_ARGUMENTS_FIRST = rf'\{{\s*"arguments":\s*{_WRITTEN_INPUT},\s*{_WRITTEN_NAME}'
_FORMATS: dict[FormatName, str] = {
    "hermes": rf"<tool_call>\s*(?:{_WITH_ARGUMENTS}|{_ARGUMENTS_FIRST})\s*\}}\s*</tool_call>",
    "mistral": rf"\[TOOL_CALLS\]\s*\[{_WITH_ARGUMENTS}",
    "mistral_named": rf"\[TOOL_CALLS\]\s*{_NAME}(?:\[CALL_ID\]\w+)?\[ARGS\]\s*{_WRITTEN_INPUT}",
    "llama3": rf'\{{\s*{_WRITTEN_NAME},\s*"parameters":\s*{_WRITTEN_INPUT}\s*\}}',
}


def format_of(text: str) -> FormatName | None:
    """Recognise the format in which a template wrote `PROBE` with `PROBE_TOOLS`; None where it left something out."""
    if text.count(_NAME) < 2 or _RESULT not in text:
        return None
    return next((name for name, pattern in _FORMATS.items() if re.search(pattern, text)), None)


def with_short_ids(turns: Sequence[Turn]) -> list[Turn]:
    """Give calls ids of nine letters and digits, the only ones that Mistral's templates take."""
    return [
        turn
        | ({"tool_call_id": _short(turn["tool_call_id"])} if "tool_call_id" in turn else {})
        | ({"tool_calls": [c | {"id": _short(c["id"])} for c in turn["tool_calls"]]} if "tool_calls" in turn else {})
        for turn in turns
    ]


def in_plain_turns(turns: Sequence[Turn]) -> list[Turn]:
    """Write calls and results as text of the assistant and of the user, for a template that has no turns for them."""
    plain: list[Turn] = []
    for turn in turns:
        role, content = ("user", _result(turn)) if turn["role"] == "tool" else (turn["role"], turn["content"])
        content = "\n".join(filter(None, (content, *map(_call, turn.get("tool_calls", ())))))
        if plain and plain[-1]["role"] == role:
            plain[-1]["content"] += "\n" + content
        else:
            plain.append({"role": role, "content": content})
    return plain


def instructed(turns: Sequence[Turn], instructions: Sequence[str], *, has_system: bool) -> list[Turn]:
    """Add instructions to the system's turn, or to the first of the user where a template has no system's."""
    text = "\n\n".join(instructions)
    if has_system and turns[0]["role"] != "system":
        return [{"role": "system", "content": text}, *turns]
    place = 0 if has_system else next((n for n, turn in enumerate(turns) if turn["role"] == "user"), 0)
    said = turns[place]["content"]
    joined = f"{said}\n\n{text}" if has_system else f"{text}\n\n{said}"
    return [*turns[:place], turns[place] | {"content": joined}, *turns[place + 1 :]]


def describe_tools(tools: Sequence[Mapping[str, Any]]) -> str:
    """Tell a model what tools there are, and how to call them."""
    listed = "\n".join(_dump(tool) for tool in tools)
    return (
        "# Tools\n\n"
        "You can call these functions, which are described between <tools> and </tools>, one a line:\n"
        f"<tools>\n{listed}\n</tools>\n\n"
        "To call one, write a JSON object with its name and its arguments between <tool_call> and </tool_call>:\n"
        '<tool_call>\n{"name": "<function name>", "arguments": {<arguments>}}\n</tool_call>\n'
        "Its result comes between <tool_response> and </tool_response>."
    )


def describe_output(schema: Mapping[str, Any]) -> str:
    """Tell a model in what form to answer."""
    return f"Answer with nothing but one line of JSON that is valid under this JSON schema:\n{_dump(schema)}"


def _short(call_id: str) -> str:
    return call_id if re.fullmatch("[A-Za-z0-9]{9}", call_id) else sha256(call_id.encode()).hexdigest()[:9]


def _call(call: Mapping[str, Any]) -> str:
    function = call["function"]
    return f"<tool_call>\n{_dump({'name': function['name'], 'arguments': function['arguments']})}\n</tool_call>"


def _result(turn: Turn) -> str:
    return f"<tool_response>\n{turn['content']}\n</tool_response>"


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
