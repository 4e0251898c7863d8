"""LangChain's ChatAnthropic."""

from __future__ import annotations

import anthropic
import pytest
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage
from langchain_core.messages.ai import add_ai_message_chunks
from langchain_core.tools import tool

from tests.clients.conftest import SAID, SAY
from tests.e2e.conftest import Product

pytestmark = pytest.mark.clients


@pytest.fixture(autouse=True)
def _no_tracing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A developer's own tracing would send what is said here to somewhere else."""
    for name in ("LANGSMITH_TRACING", "LANGSMITH_TRACING_V2", "LANGCHAIN_TRACING", "LANGCHAIN_TRACING_V2"):
        monkeypatch.setenv(name, "false")


@pytest.fixture
def chat(product: Product, key: str) -> ChatAnthropic:
    return a_chat(product, key)


def a_chat(product: Product, key: str, model: str = "default") -> ChatAnthropic:
    return ChatAnthropic.model_validate(
        {
            "model": model,
            "anthropic_api_url": product.url,
            "anthropic_api_key": key,
            "max_tokens": 100,
            "max_retries": 0,
        }
    )


def test_invoke(chat: ChatAnthropic) -> None:
    answer = chat.invoke([("system", "Be brief."), ("human", SAY)])
    assert answer.content == SAID
    assert answer.response_metadata["stop_reason"] == "end_turn"
    assert answer.usage_metadata
    assert answer.usage_metadata["output_tokens"] > 5


def test_chunks_add_up(chat: ChatAnthropic) -> None:
    chunks = list(chat.stream(SAY))
    assert len(chunks) > 5
    whole = chunks[0]
    for chunk in chunks[1:]:
        whole += chunk
    assert isinstance(whole, AIMessageChunk)
    assert whole.text == SAID
    assert whole.response_metadata["stop_reason"] == "end_turn"
    invoked = chat.invoke(SAY)
    assert whole.usage_metadata == invoked.usage_metadata


async def test_asynchronous_chunks(chat: ChatAnthropic) -> None:
    assert "".join([chunk.text async for chunk in chat.astream(SAY)]) == SAID


@tool
def get_weather(city: str, days: int) -> str:
    """Tell the weather of a city."""
    return f"{days} days of sun in {city}."


def test_tools(chat: ChatAnthropic) -> None:
    call = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris", "days": 2}}\n</tool_call>'
    bound = chat.bind_tools([get_weather])
    answer = bound.invoke(f"SLUICE-SAY: I look.\n{call}")
    assert isinstance(answer, AIMessage)
    (made,) = answer.tool_calls
    assert (made["name"], made["args"]) == ("get_weather", {"city": "Paris", "days": 2})
    chunks = [chunk for chunk in bound.stream(f"SLUICE-SAY: I look.\n{call}") if isinstance(chunk, AIMessageChunk)]
    whole = add_ai_message_chunks(*chunks)
    assert [made["args"] for made in whole.tool_calls] == [{"city": "Paris", "days": 2}]
    result = ToolMessage("SLUICE-SAY: Take a hat.", tool_call_id=made["id"])
    assert bound.invoke([HumanMessage("Weather?"), answer, result]).text == "Take a hat."


def test_errors_are_the_clients(product: Product, key: str) -> None:
    with pytest.raises(anthropic.NotFoundError, match="no-such-model"):
        a_chat(product, key, "no-such-model").invoke(SAY)
