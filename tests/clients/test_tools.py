"""Tools through the helpers of Anthropic's and OpenAI's clients."""

from __future__ import annotations

import json
from typing import Any

import anthropic
import openai
import pytest
from anthropic import beta_tool

from tests.e2e.conftest import Product

pytestmark = pytest.mark.clients

PARIS = {"city": "Paris", "days": 2}


def call(arguments: dict[str, Any]) -> str:
    return f"<tool_call>\n{json.dumps({'name': 'get_weather', 'arguments': arguments})}\n</tool_call>"


SAYING = f"SLUICE-SAY: I look.\n{call(PARIS)}"


def weather(city: str, days: int = 1) -> str:
    """Tell the weather.

    Args:
        city: Where.
        days: For how long.
    """
    return f"SLUICE-SAY: {days} days of sun in {city}."


def test_anthropics_tool_runner_streams(product: Product, key: str) -> None:
    with anthropic.Anthropic(api_key=key, base_url=product.url, max_retries=0) as client:
        runner = client.beta.messages.tool_runner(
            model="default",
            max_tokens=200,
            messages=[{"role": "user", "content": SAYING}],
            tools=[beta_tool(weather, name="get_weather")],
            stream=True,
        )
        texts = ["".join(event.text for event in turn if event.type == "text") for turn in runner]
    assert texts == ["I look.", "2 days of sun in Paris."]


def test_openais_helper_accumulates(product: Product, key: str) -> None:
    parameters: dict[str, object] = {"type": "object", "properties": {"city": {"type": "string"}}}
    with (
        openai.OpenAI(api_key=key, base_url=product.url + "/v1", max_retries=0) as client,
        client.chat.completions.stream(
            model="default",
            messages=[{"role": "user", "content": SAYING}],
            tools=[{"type": "function", "function": {"name": "get_weather", "parameters": parameters}}],
        ) as stream,
    ):
        done = [event for event in stream if event.type == "tool_calls.function.arguments.done"]
        final = stream.get_final_completion()
    assert [json.loads(event.arguments) for event in done] == [PARIS]
    assert final.choices[0].finish_reason == "tool_calls"
    assert final.choices[0].message.content == "I look."
