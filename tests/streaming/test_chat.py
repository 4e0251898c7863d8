"""POST /v1/chat/completions."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import openai
import pytest

from inference.protocol.settings import Settings
from streaming.gateway import Gateway
from tests.streaming.conftest import Ask, Response
from tests.streaming.official import openai_client

PATH = "/v1/chat/completions"


def a_chat(text: str = "Tell me.", **more: Any) -> dict[str, Any]:
    return {"model": "default", "max_tokens": 5, "messages": [{"role": "user", "content": text}]} | more


def chunks(r: Response) -> list[Any]:
    lines = [line[6:] for line in r.body.decode().split("\n") if line.startswith("data: ")]
    return [line if line == "[DONE]" else json.loads(line) for line in lines]


async def test_it_works(ask: Ask) -> None:
    r = await (await ask("POST", PATH, a_chat("SLUICE-SAY: Hi 🙂 there", max_tokens=50, stream=True))).whole()
    *rest, done = chunks(r)
    assert done == "[DONE]"
    assert "".join(c["choices"][0]["delta"].get("content", "") for c in rest) == "Hi 🙂 there"
    assert rest[0]["choices"][0]["delta"]["role"] == "assistant"
    assert rest[-1]["choices"][0]["finish_reason"] == "stop"
    assert all("usage" not in c for c in rest)
    assert b"id: " not in r.body
    assert b"event: " not in r.body


async def test_usage_comes_once_and_only_when_asked_for(ask: Ask) -> None:
    r = await (await ask("POST", PATH, a_chat(stream=True, stream_options={"include_usage": True}))).whole()
    *rest, last, done = chunks(r)
    assert done == "[DONE]"
    assert last["choices"] == []
    assert last["usage"]["completion_tokens"] == 5
    assert all(c["usage"] is None for c in rest)
    assert rest[-1]["choices"][0]["finish_reason"] == "length"


async def test_a_completion_as_one_json(ask: Ask) -> None:
    r = await (await ask("POST", PATH, a_chat("SLUICE-SAY: Hello", max_tokens=50))).whole()
    body = r.json()
    assert body["object"] == "chat.completion"
    assert body["choices"][0]["message"] == {"role": "assistant", "content": "Hello", "refusal": None}
    assert body["choices"][0]["finish_reason"] == "stop"
    assert body["usage"]["total_tokens"] == body["usage"]["prompt_tokens"] + 1


async def test_without_a_limit_there_is_room_for_as_much_as_fits(ask: Ask) -> None:
    chat = a_chat("SLUICE-SAY: Hello there")
    del chat["max_tokens"]
    assert (await (await ask("POST", PATH, chat)).whole()).json()["choices"][0]["finish_reason"] == "stop"


@pytest.mark.parametrize(
    "asks_for_nothing",
    [
        {"n": 1}, {"logprobs": False}, {"frequency_penalty": 0, "presence_penalty": 0.0}, {"tools": []},
        {"response_format": {"type": "text"}}, {"user": "u", "metadata": {}, "service_tier": "auto"},
        {"stop": None}, {"stop": ["never"]}, {"seed": 7}, {"tool_choice": "none"}, {"logit_bias": {}},
    ],
)  # fmt: skip
async def test_values_that_ask_for_nothing_are_taken(ask: Ask, asks_for_nothing: dict[str, Any]) -> None:
    assert (await (await ask("POST", PATH, a_chat(**asks_for_nothing))).whole()).status == 200


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"n": 2}, "n: not supported here"),
        ({"logprobs": True}, "logprobs: not supported here"),
        ({"frequency_penalty": 0.5}, "frequency_penalty"),
        ({"tools": [{"type": "function"}]}, "tools[0].function: this field is required"),
        ({"response_format": {"type": "grammar"}}, "response_format.type: invalid value 'grammar'"),
        ({"max_completion_tokens": 5}, "max_tokens: give it or max_completion_tokens"),
        ({"colour": "red"}, "colour: no such field"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "only text is supported"),
    ],
)
async def test_it_refuses_by_name_in_openais_form(ask: Ask, changes: dict[str, Any], said: str) -> None:
    r = await (await ask("POST", PATH, a_chat(**changes))).whole()
    assert r.status == 400
    error = r.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert said in error["message"]


async def test_a_wrong_key_in_openais_form(ask: Ask) -> None:
    r = await (await ask("POST", PATH, a_chat(), key="bad")).whole()
    assert (r.status, r.json()["error"]["type"]) == (401, "authentication_error")


async def test_a_cut_stream_has_an_error_and_no_end_mark(ask: Ask, gateway: Gateway) -> None:
    r = await ask("POST", PATH, a_chat(max_tokens=5000, stream=True))
    await r.until(b"content")
    await gateway.drain.run()
    await r.whole()
    assert chunks(r)[-1]["error"]["code"] == "server_shutdown"
    assert "[DONE]" not in r.body.decode()


class TestHeartbeat:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        return replace(settings, heartbeat_s=0.1, sim_prefill_ms=400)

    async def test_it_is_a_comment(self, ask: Ask) -> None:
        r = await (await ask("POST", PATH, a_chat(stream=True))).whole()
        assert b": ping\n\n" in r.body
        assert b"event: ping" not in r.body


class TestOfficialClient:
    """The client exposes `code` and `param`, and tells errors apart by them."""

    @pytest.mark.parametrize(
        ("changes", "param", "code"),
        [
            ({"temperature": 9}, "temperature", "invalid_value"),
            ({"temperature": "hot"}, "temperature", "invalid_type"),
            ({"extra_body": {"colour": "red"}}, "colour", "unknown_parameter"),
            ({"n": 2}, "n", "unsupported_parameter"),
            ({"messages": []}, "messages", "invalid_value"),
            ({"max_tokens": 100_000}, "max_tokens", "context_length_exceeded"),
            ({"extra_query": {"colour": "red"}}, "colour", "unknown_parameter"),
        ],
    )
    async def test_what_is_wrong(self, gateway: Gateway, changes: dict[str, Any], param: str, code: str) -> None:
        async with openai_client(gateway) as client:
            with pytest.raises(openai.BadRequestError) as caught:
                await client.chat.completions.create(**a_chat() | changes)
        assert (caught.value.param, caught.value.code) == (param, code)
        assert caught.value.request_id

    async def test_what_is_missing(self, ask: Ask) -> None:
        error = (await (await ask("POST", PATH, {"model": "default"})).whole()).json()["error"]
        assert (error["param"], error["code"]) == ("messages", "missing_required_parameter")

    async def test_who_is_not_known(self, gateway: Gateway) -> None:
        async with openai_client(gateway, api_key="bad") as client:
            with pytest.raises(openai.AuthenticationError) as caught:
                await client.chat.completions.create(**a_chat())
            assert caught.value.code == "invalid_api_key"
            with pytest.raises(openai.AuthenticationError) as caught:
                await client.models.list()
            assert caught.value.code == "invalid_api_key"

    async def test_what_is_not_there(self, gateway: Gateway) -> None:
        async with openai_client(gateway) as client:
            with pytest.raises(openai.NotFoundError) as caught:
                await client.chat.completions.create(**a_chat(model="other"))
            assert (caught.value.param, caught.value.code) == ("model", "model_not_found")
            with pytest.raises(openai.NotFoundError) as caught:
                await client.models.retrieve("other")
            assert (caught.value.param, caught.value.code) == ("model", "model_not_found")
