"""OpenAI's bodies: tools, their calls and results, JSON answers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from common.errors import InvalidRequest
from streaming.surfaces.chat_body import ANY_OBJECT, NO_PARAMETERS, parse_chat, wanted
from streaming.wanted import ToolChoice, Wanted

PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
USER = {"role": "user", "content": "hi"}


def tool(name: str = "get_weather", **more: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": PARAMETERS} | more}


def call(call_id: str = "call_1", arguments: str = '{"city": "Paris"}', **more: Any) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": "get_weather", "arguments": arguments}} | more


def answer(*calls: Any, content: Any = None) -> dict[str, Any]:
    return {"role": "assistant", "content": content, "tool_calls": list(calls)}


def result(call_id: str = "call_1", content: Any = "Sunny") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def want(*messages: Any, **changes: Any) -> Wanted:
    body = {"model": "m", "messages": list(messages) or [USER], "tools": [tool(), tool("get_time")]}
    return wanted(parse_chat(json.dumps(body | changes).encode()))


def test_it_works() -> None:
    made = want(tool_choice="required", parallel_tool_calls=False)
    assert [each.name for each in made.tools] == ["get_weather", "get_time"]
    assert made.tools[0].schema.body == PARAMETERS
    assert made.choice == ToolChoice(kind="any", parallel=False)


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (None, ToolChoice()),
        ("auto", ToolChoice()),
        ("none", ToolChoice(kind="none")),
        ("required", ToolChoice(kind="any")),
        ({"type": "function", "function": {"name": "get_time"}}, ToolChoice(kind="any", name="get_time")),
    ],
)
def test_choices(choice: Any, expected: ToolChoice) -> None:
    assert want(tool_choice=choice).choice == expected


def test_a_function_without_parameters_takes_none() -> None:
    (made,) = want(tools=[{"type": "function", "function": {"name": "f", "strict": True}}]).tools
    assert (made.schema.body, made.strict) == (NO_PARAMETERS, True)
    (made,) = want(tools=[{"type": "function", "function": {"name": "f", "parameters": {}}}]).tools
    assert made.schema.body == ANY_OBJECT


def test_turns() -> None:
    echoed = answer(call(), call("call_2"), content="I look.") | {"refusal": None, "annotations": [], "audio": None}
    made = want(
        USER,
        echoed,
        result(),
        result("call_2", [{"type": "text", "text": "Rain"}]),
        answer(call("call_3", "")),
        result("call_3"),
    )
    assert [turn["role"] for turn in made.turns] == ["user", "assistant", "tool", "tool", "assistant", "tool"]
    assert made.turns[1]["tool_calls"][0]["function"] == {"name": "get_weather", "arguments": {"city": "Paris"}}
    assert made.turns[3] == {"role": "tool", "tool_call_id": "call_2", "name": "get_weather", "content": "Rain"}
    assert made.turns[4]["tool_calls"][0]["function"]["arguments"] == {}
    assert made.texts[-1] == "Sunny"


@pytest.mark.parametrize(
    ("messages", "said"),
    [
        ([USER | {"tool_calls": [call()]}], "messages[0].tool_calls: only the assistant's"),
        ([USER | {"tool_call_id": "a"}], "messages[0].tool_call_id: a tool's messages have it"),
        ([{"role": "tool", "content": "x"}], "messages[0].tool_call_id: a tool's messages have it"),
        ([result()], "messages[0].tool_call_id: no call with the id 'call_1' is waiting for a result."),
        ([answer(call()), USER], "messages[1]: expected the results of call_1 first."),
        ([answer(call(), call("b")), result()], "messages: expected the results of b first."),
        ([answer(call(), call())], "messages[0].tool_calls[1].id: 'call_1' is the id of an earlier call, too."),
        ([answer(call(arguments="[1]"))], "messages[0].tool_calls[0].function.arguments: expected a JSON object"),
        ([answer(call(arguments="{"))], "messages[0].tool_calls[0].function.arguments: expected a JSON object"),
        ([answer(call(type="custom"))], "messages[0].tool_calls[0].type: invalid enum value 'custom'."),
        ([answer()], "messages[0].content: expected some text."),
        ([{"role": "user"}], "messages[0].content: expected some text."),
        ([USER, {"role": "assistant", "content": "a"}], "messages: the last must be the user's, or a tool's."),
    ],
)  # fmt: skip
def test_it_refuses_turns(messages: list[Any], said: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        want(*messages)
    assert refused.value.message.startswith(said), refused.value.message


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"tools": [{"type": "function"}]}, "tools[0].function: this field is required."),
        ({"tools": [{"type": "custom", "function": {"name": "f"}}]}, "tools[0].type: invalid enum value 'custom'."),
        ({"tools": [tool(), tool()]}, "tools[1].function.name: another tool has the same name."),
        ({"tools": [tool("a b")]}, "tools[0].function.name: expected `str` matching"),
        ({"tools": [tool(parameters={"type": "string"})]}, "tools[0].function.parameters.type: expected 'object'."),
        ({"tools": [tool(parameters={"properties": 1})]}, "tools[0].function.parameters.properties: expected"),
        ({"tools": [], "tool_choice": "required"}, "tool_choice: there are no tools to choose from."),
        ({"tool_choice": {"type": "function", "function": {"name": "x"}}}, "tool_choice.function.name: there is"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema: this field is required."),
        ({"response_format": {"type": "grammar"}}, "response_format.type: invalid value 'grammar'."),
        ({"functions": []}, "functions: not supported here."),
    ],
)  # fmt: skip
def test_it_refuses_by_name(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        want(**changes)
    assert refused.value.message.startswith(said), refused.value.message


def test_json_answers() -> None:
    named = {"name": "city", "schema": PARAMETERS, "strict": True}
    schema = want(response_format={"type": "json_schema", "json_schema": named}).output
    assert schema is not None
    assert schema.body == PARAMETERS
    any_object = want(response_format={"type": "json_object"}).output
    assert any_object is not None
    assert any_object.body == ANY_OBJECT
    assert want(response_format={"type": "text"}).output is None
