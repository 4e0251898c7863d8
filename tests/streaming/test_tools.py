"""Tools and JSON answers over the wire; the simulated engine says the calls."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
import redis
from anthropic import beta_async_tool
from anthropic.types import ToolParam
from openai.types.chat import ChatCompletionMessageFunctionToolCall

from inference.protocol.requests import GenerationRequest
from inference.protocol.settings import Settings
from streaming.gateway import Gateway
from tests.streaming.conftest import Ask, Response, a_body, settlement_of
from tests.streaming.official import anthropic_client, openai_client

MESSAGES, CHAT = "/v1/messages", "/v1/chat/completions"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "unit": {"enum": ["C", "F"]}},
    "required": ["city"],
    "additionalProperties": False,
}
TOOL: ToolParam = {"name": "get_weather", "description": "Weather of a city", "input_schema": SCHEMA}
FUNCTION: dict[str, Any] = {"type": "function", "function": {"name": "get_weather", "parameters": SCHEMA}}
PARIS, ROME = {"city": "Paris", "unit": "C"}, {"city": "Rome é"}


def call(arguments: Any, name: str = "get_weather") -> str:
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments}, ensure_ascii=False)}\n</tool_call>"


SAYING = f"SLUICE-SAY: I look.\n{call(PARIS)}\n{call(ROME)}"


def asking(said: str = SAYING, **more: Any) -> dict[str, Any]:
    return a_body(said, **({"max_tokens": 300, "tools": [TOOL]} | more))


def chatting(said: str = SAYING, **more: Any) -> dict[str, Any]:
    body = {"model": "default", "max_tokens": 300, "messages": [{"role": "user", "content": said}], "tools": [FUNCTION]}
    return body | more


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return replace(settings, sim_prefill_ms=1, sim_tpot_ms=1)


async def test_it_works(ask: Ask) -> None:
    r: Response = await (await ask("POST", MESSAGES, asking(stream=True))).whole()
    blocks = [e["content_block"]["type"] for e in r.events if e["type"] == "content_block_start"]
    assert blocks == ["text", "tool_use", "tool_use"]
    fragments: dict[int, list[str]] = {}
    for event in r.events:
        if event["type"] == "content_block_delta" and event["delta"]["type"] == "input_json_delta":
            fragments.setdefault(event["index"], []).append(event["delta"]["partial_json"])
    assert [json.loads("".join(parts)) for parts in fragments.values()] == [PARIS, ROME]
    assert all(len(parts) > 2 for parts in fragments.values())
    assert r.events[-2]["delta"]["stop_reason"] == "tool_use"
    assert b"tool_call>" not in r.body


async def test_one_json(ask: Ask) -> None:
    body = (await (await ask("POST", MESSAGES, asking())).whole()).json()
    text, first, second = body["content"]
    assert text == {"type": "text", "text": "I look."}
    assert (first["name"], first["input"], second["input"]) == ("get_weather", PARIS, ROME)
    assert body["stop_reason"] == "tool_use"


async def test_one_call_at_most(ask: Ask) -> None:
    choice = {"type": "auto", "disable_parallel_tool_use": True}
    body = (await (await ask("POST", MESSAGES, asking(tool_choice=choice))).whole()).json()
    assert [block["type"] for block in body["content"]] == ["text", "tool_use"]


async def test_a_call_that_may_not_be_is_text(ask: Ask) -> None:
    body = (await (await ask("POST", MESSAGES, asking(tool_choice={"type": "none"}))).whole()).json()
    assert [block["type"] for block in body["content"]] == ["text"]
    body = (await (await ask("POST", MESSAGES, asking(f"SLUICE-SAY: {call({}, 'delete_all')}"))).whole()).json()
    assert (body["content"][0]["text"], body["stop_reason"]) == (call({}, "delete_all"), "end_turn")


async def test_a_cut_call_has_what_is_whole(ask: Ask) -> None:
    # The text, the head of the call and `{"city": "Paris", "unit`.
    body = (await (await ask("POST", MESSAGES, asking(f"SLUICE-SAY: {call(PARIS)}", max_tokens=27))).whole()).json()
    assert body["stop_reason"] == "max_tokens"
    assert body["content"][-1]["input"] == {"city": "Paris"}


async def test_results_come_back(ask: Ask) -> None:
    first = (await (await ask("POST", MESSAGES, asking())).whole()).json()
    results = [
        {"type": "tool_result", "tool_use_id": block["id"], "content": said, "is_error": False}
        for block, said in zip(first["content"][1:], ("Sunny", "SLUICE-SAY: It is nice."), strict=True)
    ]
    turns = [{"role": "assistant", "content": first["content"]}, {"role": "user", "content": results}]
    body = asking(messages=[{"role": "user", "content": "Weather?"}, *turns])
    second = (await (await ask("POST", MESSAGES, body)).whole()).json()
    assert second["content"] == [{"type": "text", "text": "It is nice."}]
    counted = {name: body[name] for name in ("model", "messages", "tools")}
    count = (await (await ask("POST", MESSAGES + "/count_tokens", counted)).whole()).json()
    assert count == {"input_tokens": second["usage"]["input_tokens"]}


@pytest.mark.parametrize("stream", [True, False])
async def test_a_call_that_is_no_json_is_an_error(ask: Ask, stream: bool) -> None:
    broken = 'SLUICE-SAY: <tool_call>{"name": "get_weather", "arguments": {city}}'
    r = await (await ask("POST", MESSAGES, asking(broken, stream=stream))).whole()
    if stream:
        assert [e["type"] for e in r.events][-2:] == ["content_block_delta", "error"]
    else:
        assert (r.status, r.json()["error"]["type"]) == (500, "api_error")


class TestCancel:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        return replace(settings, sim_tpot_ms=20)

    async def test_a_cut_call_stays_open(self, ask: Ask, store: redis.Redis, settings: Settings) -> None:
        r = await ask("POST", MESSAGES, asking(f"SLUICE-SAY: {call({'city': 'x ' * 500})}", stream=True))
        await r.until(b"input_json_delta")
        message_id = r.events[0]["message"]["id"]
        await (await ask("DELETE", f"/v1/streams/{message_id}")).whole()
        await r.whole()
        kinds = [e["type"] for e in r.events if e["type"] != "ping"]
        assert kinds[-1] == "error"
        assert "content_block_stop" not in kinds
        assert (await settlement_of(store, settings)).outcome == "cancelled"

    async def test_and_so_it_does_when_the_gateway_stops(self, ask: Ask, gateway: Gateway) -> None:
        r = await ask("POST", MESSAGES, asking(f"SLUICE-SAY: {call({'city': 'x ' * 500})}", stream=True))
        await r.until(b"input_json_delta")
        await gateway.drain.run()
        await r.whole()
        assert r.events[-1]["type"] == "error"


def a_tool(changes: dict[str, Any], *, strict: bool = True) -> dict[str, Any]:
    return {"tools": [TOOL | {"input_schema": SCHEMA | changes, "strict": strict}]}


def an_output(**schema: Any) -> dict[str, Any]:
    return {"output_config": {"format": {"type": "json_schema", "schema": schema}}}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (a_tool({"not": {}}), "tools[0].input_schema.not: not supported here."),
        (a_tool({"not": {}}, strict=False) | {"tool_choice": {"type": "any"}}, "tools[0].input_schema.not: not"),
        (a_tool({"colour": 1}), "tools[0].input_schema.colour: no such keyword."),
        (a_tool({"type": 7}, strict=False), "tools[0].input_schema.type: expected 'object'"),
        (a_tool({"required": 7}, strict=False), "tools[0].input_schema.required: expected a list of names."),
        (an_output(uniqueItems=True), "output_config.format.schema.uniqueItems: not supported here."),
        (an_output(type="string", pattern="(?=a)"), "schema: no answer can be held to it: regex parse error"),
    ],
)
async def test_schemas_that_nothing_can_be_held_to(ask: Ask, changes: dict[str, Any], said: str) -> None:
    r = await (await ask("POST", MESSAGES, asking(**changes))).whole()
    assert r.status == 400
    assert said in r.json()["error"]["message"]


async def test_where_nobody_asked_for_that_such_a_schema_is_only_shown(ask: Ask) -> None:
    tool = TOOL | {"input_schema": SCHEMA | {"not": {"required": ["x"]}}}
    body = (await (await ask("POST", MESSAGES, asking(tools=[tool]))).whole()).json()
    assert [block["type"] for block in body["content"]] == ["text", "tool_use", "tool_use"]


class TestQueued:
    """What a worker is told."""

    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        return replace(settings, sim_prefill_ms=500)

    @pytest.mark.parametrize(
        ("changes", "parallel", "said", "required"),
        [
            ({"tool_choice": {"type": "tool", "name": "get_weather"}}, False, "start: calls", True),
            ({"tool_choice": {"type": "any"}}, True, "start: calls", True),
            ({}, True, "start: (head rest)* text", False),
            ({"tools": [TOOL | {"strict": True}]}, True, "start: (head rest)* text", True),
            ({"tool_choice": {"type": "none"}}, None, "start: text", False),
            ({"tools": [], "output_format": {"type": "json_schema", "schema": SCHEMA}}, None, "start: output", True),
            ({"output_format": {"type": "json_schema", "schema": SCHEMA}}, True, "start: calls | output", True),
            ({"tools": []}, None, "", None),
        ],
    )
    async def test_what_holds_the_answer(
        self,
        ask: Ask,
        gateway: Gateway,
        monkeypatch: pytest.MonkeyPatch,
        changes: dict[str, Any],
        parallel: bool | None,
        said: str,
        required: bool | None,
    ) -> None:
        queued: list[GenerationRequest] = []
        opening = gateway.log.open

        async def noting(request: GenerationRequest, **more: Any) -> Any:
            queued.append(GenerationRequest.decode(request.encode()))
            return await opening(request, **more)

        monkeypatch.setattr(gateway.log, "open", noting)
        await (await ask("POST", MESSAGES, asking("hi", max_tokens=1, **changes))).whole()
        (request,) = queued
        assert (request.tools.parallel if request.tools else None) == parallel
        assert said in (request.grammar.source if request.grammar else "")
        assert (request.grammar.required if request.grammar else None) == required
        assert request.version == (2 if said else 1)


class TestAnthropicClient:
    async def test_the_stream_helper(self, gateway: Gateway) -> None:
        async with (
            anthropic_client(gateway) as client,
            client.messages.stream(
                model="default", max_tokens=300, messages=[{"role": "user", "content": SAYING}], tools=[TOOL]
            ) as stream,
        ):
            fragments = [event.partial_json async for event in stream if event.type == "input_json"]
            final = await stream.get_final_message()
        assert len(fragments) > 4
        assert final.stop_reason == "tool_use"
        assert [block.input for block in final.content if block.type == "tool_use"] == [PARIS, ROME]

    async def test_the_tool_runner(self, gateway: Gateway) -> None:
        asked: list[str] = []

        @beta_async_tool
        async def get_weather(city: str, unit: str = "C") -> str:
            """Tell the weather.

            Args:
                city: Where.
                unit: Of the temperature.
            """
            asked.append(f"{city} {unit}")
            return "SLUICE-SAY: It is nice there."

        async with anthropic_client(gateway) as client:
            runner = client.beta.messages.tool_runner(
                model="default",
                max_tokens=300,
                messages=[{"role": "user", "content": f"SLUICE-SAY: {call(PARIS)}"}],
                tools=[get_weather],
            )
            final = await runner.until_done()
        assert asked == ["Paris C"]
        assert [block.text for block in final.content if block.type == "text"] == ["It is nice there."]


class TestOpenAiClient:
    async def test_one_completion(self, gateway: Gateway) -> None:
        async with openai_client(gateway) as client:
            completion = await client.chat.completions.create(**chatting())
        (choice,) = completion.choices
        assert (choice.finish_reason, choice.message.content) == ("tool_calls", "I look.")
        calls = choice.message.tool_calls or []
        assert all(isinstance(each, ChatCompletionMessageFunctionToolCall) for each in calls)
        assert [json.loads(each.function.arguments) for each in calls if each.type == "function"] == [PARIS, ROME]

    async def test_the_stream_helper(self, gateway: Gateway) -> None:
        async with openai_client(gateway) as client, client.chat.completions.stream(**chatting()) as stream:
            kinds = [event.type async for event in stream]
            final = await stream.get_final_completion()
        assert kinds.count("tool_calls.function.arguments.delta") > 4
        assert kinds.count("tool_calls.function.arguments.done") == 2
        assert final.choices[0].finish_reason == "tool_calls"
        assert [json.loads(each.function.arguments) for each in final.choices[0].message.tool_calls or []] == [
            PARIS,
            ROME,
        ]

    async def test_results_come_back(self, gateway: Gateway) -> None:
        async with openai_client(gateway) as client:
            first = await client.chat.completions.create(**chatting(f"SLUICE-SAY: {call(PARIS)}"))
            answer = first.choices[0].message.model_dump()
            (made,) = answer["tool_calls"]
            result = {"role": "tool", "tool_call_id": made["id"], "content": "SLUICE-SAY: It is nice."}
            turns = [{"role": "user", "content": "Weather?"}, answer, result]
            second = await client.chat.completions.create(**chatting(messages=turns))
        assert second.choices[0].message.content == "It is nice."

    async def test_one_call_at_most(self, gateway: Gateway) -> None:
        async with openai_client(gateway) as client:
            completion = await client.chat.completions.create(**chatting(parallel_tool_calls=False))
        assert len(completion.choices[0].message.tool_calls or []) == 1
