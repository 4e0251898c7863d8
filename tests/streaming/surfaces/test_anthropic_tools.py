"""Anthropic's bodies with tools, their calls and results, and JSON answers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from common.errors import InvalidRequest
from streaming.surfaces.anthropic import asked, wanted
from streaming.surfaces.messages_body import parse_count, parse_messages
from streaming.wanted import ToolChoice, Wanted

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL = {"name": "get_weather", "description": "Weather of a city", "input_schema": SCHEMA}
OTHER = {"name": "get_time", "input_schema": {"type": "object"}}


def user(*content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content[0] if isinstance(content[0], str) else list(content)}


def assistant(*content: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(content)}


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def use(call_id: str = "toolu_1", **more: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "get_weather", "input": {"city": "Paris"}} | more


def result(call_id: str = "toolu_1", content: Any = "Sunny", **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content} | more


def want(*messages: Any, **changes: Any) -> Wanted:
    body = {"model": "m", "max_tokens": 5, "messages": list(messages) or [user("hi")], "tools": [TOOL, OTHER]}
    return wanted(parse_messages(json.dumps(body | changes).encode()))


def test_it_works() -> None:
    made = want(tool_choice={"type": "any", "disable_parallel_tool_use": True})
    assert [(tool.name, tool.description, tool.strict) for tool in made.tools] == [
        ("get_weather", "Weather of a city", False),
        ("get_time", "", False),
    ]
    assert made.tools[0].schema.body == SCHEMA
    assert made.choice == ToolChoice(kind="any", parallel=False)
    assert made.shown_tools[0] == {
        "type": "function",
        "function": {"name": "get_weather", "description": "Weather of a city", "parameters": SCHEMA},
    }
    assert made.texts[-1] == "hi"
    assert "Weather of a city" in made.texts[0]


def test_escapes_in_a_tool_hide_nothing() -> None:
    tool = {"name": "t", "description": 'Say\n"oaf"', "input_schema": SCHEMA | {"title": "a\tlout"}}
    assert 'Say\n"oaf"' in want(tools=[tool]).texts[0]
    assert "a\tlout" in want(tools=[tool]).texts[0]


@pytest.mark.parametrize(
    ("choice", "kind", "callable_tools", "shown"),
    [
        (None, "auto", ["get_weather", "get_time"], 2),
        ({"type": "auto"}, "auto", ["get_weather", "get_time"], 2),
        ({"type": "any"}, "any", ["get_weather", "get_time"], 2),
        ({"type": "tool", "name": "get_time"}, "any", ["get_time"], 2),
        ({"type": "none"}, "none", [], 0),
    ],
)
def test_choices(choice: Any, kind: str, callable_tools: list[str], shown: int) -> None:
    made = want(tool_choice=choice)
    assert made.choice.kind == kind
    assert [tool.name for tool in made.callable_tools] == callable_tools
    assert len(made.shown_tools) == shown


@pytest.mark.parametrize(
    "more",
    [
        {"type": "custom"}, {"cache_control": {"type": "ephemeral"}}, {"strict": True}, {"description": None},
        {"eager_input_streaming": True}, {"allowed_callers": ["direct"]}, {"defer_loading": False},
        {"input_examples": []},
    ],
)  # fmt: skip
def test_what_else_a_tool_may_say(more: dict[str, Any]) -> None:
    (tool,) = want(tools=[TOOL | more]).tools
    assert tool.strict == bool(more.get("strict"))


def test_turns() -> None:
    made = want(
        user("Weather?"),
        assistant(text("I look."), use(), use("toolu_2", input={"city": "Rome"}, cache_control=None)),
        user(result(), result("toolu_2", [text("Rain"), text("and wind")], is_error=True), text("And now?")),
        assistant(use("toolu_3")),
        user(result("toolu_3", is_error=False)),
    )
    calls = [
        {"type": "function", "id": f"toolu_{n}", "function": {"name": "get_weather", "arguments": {"city": city}}}
        for n, city in ((1, "Paris"), (2, "Rome"), (3, "Paris"))
    ]
    said = {"role": "tool", "name": "get_weather"}
    assert made.turns == [
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": "I look.", "tool_calls": calls[:2]},
        said | {"tool_call_id": "toolu_1", "content": "Sunny"},
        said | {"tool_call_id": "toolu_2", "content": "Error: Rain\nand wind"},
        {"role": "user", "content": "And now?"},
        {"role": "assistant", "content": "", "tool_calls": calls[2:]},
        said | {"tool_call_id": "toolu_3", "content": "Sunny"},
    ]
    assert made.texts[-1] == "Sunny"


@pytest.mark.parametrize(
    ("messages", "said"),
    [
        ([user(use())], "messages[0].content[0].type: a tool_use is the assistant's to give."),
        ([assistant(result()), user("a")], "messages[0].content[0].type: a tool_result is the user's to give."),
        ([user(result())], "messages[0].content[0].tool_use_id: no call with the id 'toolu_1' is waiting"),
        ([assistant(use()), user("a")], "messages[1].content: expected the results of toolu_1 first."),
        ([assistant(use(), use("b")), user(result())], "messages[1].content: expected the results of b first."),
        ([assistant(use()), user(result(), result())], "messages[1].content[1].tool_use_id: no call"),
        ([assistant(use()), user(text("a"), result())], "messages[1].content[1].type: a tool_result comes before"),
        ([assistant(use(), use())], "messages[0].content[1].id: 'toolu_1' is the id of an earlier call, too."),
        ([assistant(use(input="x"))], "messages[0].content[0].input: expected `object`, got `str`."),
        ([assistant(use(name="a b"))], "messages[0].content[0].name: expected `str` matching"),
        ([assistant(use()), user(result(content=[{"type": "image"}]))], "messages[1].content[0].content[0].type: only"),
        ([user({"type": "image"})], "messages[0].content[0].type: only text, tool_use and tool_result are supported."),
        ([assistant(use())], "messages: the last must be the user's"),
    ],
)  # fmt: skip
def test_it_refuses_turns(messages: list[Any], said: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        want(*messages)
    assert refused.value.message.startswith(said), refused.value.message


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"tools": [{"name": "f"}]}, "tools[0].input_schema: this field is required."),
        ({"tools": [TOOL, TOOL]}, "tools[1].name: another tool has the same name."),
        ({"tools": [TOOL | {"name": "a b"}]}, "tools[0].name: expected `str` matching"),
        ({"tools": [TOOL | {"colour": 1}]}, "tools[0].colour: no such field."),
        ({"tools": [TOOL | {"defer_loading": True}]}, "tools[0].defer_loading: not supported here."),
        ({"tools": [TOOL | {"input_examples": [{}]}]}, "tools[0].input_examples: not supported here."),
        ({"tools": [{"type": "web_search_20250305", "name": "w"}]}, "tools[0].type: 'web_search_20250305', a tool"),
        ({"tools": [TOOL | {"input_schema": {"type": "array"}}]}, "tools[0].input_schema.type: expected 'object'."),
        ({"tools": [TOOL | {"input_schema": SCHEMA | {"required": "x"}}]}, "tools[0].input_schema.required: expected"),
        ({"tools": [TOOL] * 129}, "tools: expected `array` of length <= 128."),
        ({"tools": [], "tool_choice": {"type": "any"}}, "tool_choice: there are no tools to choose from."),
        ({"tool_choice": {"type": "tool", "name": "x"}}, "tool_choice.name: there is no tool 'x'."),
        ({"tool_choice": {"type": "some"}}, "tool_choice.type: invalid value 'some'."),
        ({"output_config": {"effort": "low"}}, "output_config.effort: not supported here."),
        ({"output_config": {"format": {"type": "json_schema", "schema": {"type": 1}}}}, "output_config.format.schema"),
        ({"output_config": {"format": {"type": "x"}}}, "output_config.format.type: invalid enum value 'x'."),
        ({"output_config": {"format": {"schema": {}}}}, "output_config.format.type: this field is required."),
    ],
)  # fmt: skip
def test_it_refuses_by_name(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        want(**changes)
    assert refused.value.message.startswith(said), refused.value.message


@pytest.mark.parametrize("name", ["output_config", "output_format"])
def test_json_answers(name: str) -> None:
    form = {"type": "json_schema", "schema": SCHEMA}
    made = want(**{name: {"format": form} if name == "output_config" else form})
    assert made.output is not None
    assert made.output.body == SCHEMA


def test_two_formats_are_one_too_many() -> None:
    form = {"type": "json_schema", "schema": SCHEMA}
    with pytest.raises(InvalidRequest, match="not both"):
        want(output_config={"format": form}, output_format=form)


def test_a_count_is_of_the_same_prompt() -> None:
    body = {"model": "m", "messages": [user("hi")], "tools": [TOOL], "tool_choice": {"type": "any"}}
    counted = asked(parse_count(json.dumps(body).encode()))
    assert (counted.turns, counted.shown_tools) == (want(tools=[TOOL]).turns, want(tools=[TOOL]).shown_tools)


def test_nesting_without_end_is_refused() -> None:
    raw = b'{"model": "m", "max_tokens": 1, "metadata": ' + b"[" * 100_000
    with pytest.raises(InvalidRequest, match="nested too deeply"):
        parse_messages(raw)
