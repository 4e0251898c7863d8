"""Tools and JSON answers of the real model: a small one, which only a grammar keeps to a schema."""

from __future__ import annotations

import json
from functools import partial
from typing import Any, Literal

import anthropic
import httpx
import openai
import pytest
from openai.types.chat import ChatCompletionNamedToolChoiceParam
from pydantic import BaseModel, ConfigDict, Field

from tests.e2e.conftest import Product, a_body, stream

pytestmark = [pytest.mark.e2e, pytest.mark.model]

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 30}, "unit": {"enum": ["C", "F"]}},
    "required": ["city", "unit"],
    "additionalProperties": False,
}
TOOL: dict[str, Any] = {"name": "get_weather", "description": "Weather of a city", "input_schema": SCHEMA}
QUESTION = "What is the weather in Paris?"


class Trip(BaseModel):
    """A short trip."""

    model_config = ConfigDict(extra="forbid")

    city: str = Field(max_length=30)
    days: int = Field(ge=1, le=9)
    by: Literal["train", "boat"]


class Ticket(BaseModel):
    """What needs no limits, since Anthropic's client takes them out of a schema: a small model would ramble on."""

    by: Literal["train", "boat"]
    and_back: bool


def test_a_forced_call_is_valid(real: Product, real_key: str) -> None:
    choice = {"type": "tool", "name": "get_weather"}
    events = stream(real, real_key, a_body(QUESTION, max_tokens=120, tools=[TOOL], tool_choice=choice))
    fragments = [e.data["delta"]["partial_json"] for e in events if e.type == "content_block_delta"]
    value = json.loads("".join(fragments))
    assert set(value) == {"city", "unit"}
    assert value["unit"] in ("C", "F")
    assert len(fragments) > 2
    assert events[-2].data["delta"]["stop_reason"] == "tool_use"


def test_calls_answers_and_text_in_one_batch(real: Product, real_key: str) -> None:
    bodies = [
        a_body(QUESTION, max_tokens=200, tools=[TOOL], tool_choice={"type": "any", "disable_parallel_tool_use": True}),
        a_body(QUESTION, max_tokens=200, output_config={"format": {"type": "json_schema", "schema": SCHEMA}}),
        a_body(QUESTION, max_tokens=20, tools=[TOOL]),
    ]
    with httpx.Client(base_url=real.url, headers={"x-api-key": real_key}, timeout=120) as client:
        call, answer, free = (client.post("/v1/messages", json=body).json() for body in bodies)
    assert set(call["content"][0]["input"]) == {"city", "unit"}
    assert set(json.loads(answer["content"][0]["text"])) == {"city", "unit"}
    assert answer["stop_reason"] == "end_turn"
    assert free["content"]


def test_anthropics_client_parses_its_answer(real: Product, real_key: str) -> None:
    with anthropic.Anthropic(api_key=real_key, base_url=real.url, max_retries=0) as client:
        message = client.messages.parse(
            model="default",
            max_tokens=200,
            messages=[{"role": "user", "content": "Plan a trip."}],
            output_format=Ticket,
        )
    assert isinstance(message.parsed_output, Ticket)


def test_openais_client_parses_its_answer_and_its_calls(real: Product, real_key: str) -> None:
    with openai.OpenAI(api_key=real_key, base_url=real.url + "/v1", max_retries=0) as client:
        parse = partial(
            client.chat.completions.parse,
            model="default",
            max_tokens=200,
            messages=[{"role": "user", "content": "Plan a trip."}],
        )
        answer = parse(response_format=Trip)
        choice: ChatCompletionNamedToolChoiceParam = {"type": "function", "function": {"name": "Trip"}}
        call = parse(tools=[openai.pydantic_function_tool(Trip)], tool_choice=choice)
    assert isinstance(answer.choices[0].message.parsed, Trip)
    (made,) = call.choices[0].message.tool_calls or []
    assert isinstance(made.function.parsed_arguments, Trip)
    assert call.choices[0].finish_reason == "tool_calls"
