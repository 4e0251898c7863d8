"""OpenAI's Python client: streams with usage, plain completions, models, typed errors."""

from __future__ import annotations

from collections.abc import Iterator

import openai
import pytest
from openai.types.chat import ChatCompletionUserMessageParam

from tests.clients.conftest import SAID, SAY
from tests.e2e.conftest import Product, records_of

pytestmark = pytest.mark.clients

QUESTION: list[ChatCompletionUserMessageParam] = [{"role": "user", "content": SAY}]


@pytest.fixture
def client(product: Product, key: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(api_key=key, base_url=product.url + "/v1", max_retries=0) as client:
        yield client


def test_a_stream_with_usage(client: openai.OpenAI) -> None:
    with client.chat.completions.create(
        model="default", messages=QUESTION, max_tokens=100, stream=True, stream_options={"include_usage": True}
    ) as stream:
        chunks = list(stream)
    *answer, last = chunks
    assert "".join(chunk.choices[0].delta.content or "" for chunk in answer) == SAID
    assert [chunk.choices[0].delta.role for chunk in answer if chunk.choices[0].delta.role] == ["assistant"]
    assert [chunk.choices[0].finish_reason for chunk in answer][-2:] == [None, "stop"]
    assert {chunk.usage for chunk in answer} == {None}
    assert last.choices == []
    assert last.usage
    assert last.usage.total_tokens == last.usage.prompt_tokens + last.usage.completion_tokens
    assert len({chunk.id for chunk in chunks}) == 1


def test_a_stream_without_usage(client: openai.OpenAI) -> None:
    with client.chat.completions.create(model="default", messages=QUESTION, max_tokens=5, stream=True) as stream:
        chunks = list(stream)
    assert chunks[-1].choices[0].finish_reason == "length"
    assert not any(chunk.usage for chunk in chunks)


def test_the_helper_accumulates(client: openai.OpenAI) -> None:
    with client.chat.completions.stream(model="default", messages=QUESTION, max_tokens=100) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_completion()
    assert kinds.count("content.delta") > 5
    assert kinds.count("content.done") == 1
    assert final.choices[0].message.content == SAID
    assert final.choices[0].finish_reason == "stop"


def test_one_json(client: openai.OpenAI) -> None:
    completion = client.chat.completions.create(model="default", messages=QUESTION, max_completion_tokens=100)
    (choice,) = completion.choices
    assert (choice.message.role, choice.message.content, choice.finish_reason) == ("assistant", SAID, "stop")
    assert completion.usage
    assert completion.usage.prompt_tokens > 10


def test_the_request_id(client: openai.OpenAI) -> None:
    completion = client.chat.completions.create(model="default", messages=QUESTION, max_tokens=1)
    assert (completion._request_id or "").startswith("req_")
    with pytest.raises(openai.NotFoundError) as caught:
        client.models.retrieve("no-such-model")
    assert caught.value.request_id


async def test_the_asynchronous_client(product: Product, key: str) -> None:
    async with openai.AsyncOpenAI(api_key=key, base_url=product.url + "/v1", max_retries=0) as client:
        stream = await client.chat.completions.create(model="default", messages=QUESTION, max_tokens=100, stream=True)
        async with stream:
            parts = [chunk.choices[0].delta.content or "" async for chunk in stream]
    assert "".join(parts) == SAID


def test_models(client: openai.OpenAI) -> None:
    models = list(client.models.list())
    assert [(model.id, model.object) for model in models] == [("SmolLM2-135M-Instruct", "model")]
    assert client.models.retrieve(models[0].id) == models[0]


@pytest.mark.parametrize("streamed", [False, True])
def test_errors_have_their_classes(client: openai.OpenAI, streamed: bool) -> None:
    with pytest.raises(openai.BadRequestError, match="temperature") as bad:
        client.chat.completions.create(model="default", messages=QUESTION, temperature=9, stream=streamed)
    with pytest.raises(openai.NotFoundError, match="no-such-model") as missing:
        client.chat.completions.create(model="no-such-model", messages=QUESTION, stream=streamed)
    stranger = client.copy(api_key="sk-sluice-nobody")
    with pytest.raises(openai.AuthenticationError) as unknown:
        stranger.chat.completions.create(model="default", messages=QUESTION, stream=streamed)
    kinds = [caught.value.type for caught in (bad, missing, unknown)]
    assert kinds == ["invalid_request_error", "not_found_error", "authentication_error"]
    codes = [(caught.value.param, caught.value.code) for caught in (bad, missing, unknown)]
    assert codes == [("temperature", "invalid_value"), ("model", "model_not_found"), (None, "invalid_api_key")]


def test_what_cannot_be_served_is_named(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match=r"\bn\b"):
        client.chat.completions.create(model="default", messages=QUESTION, n=2)


def test_who_leaves_ends_the_message(product: Product) -> None:
    key = product.manage("createkey", "leaves", "--org", "leaves-openai")
    question: list[ChatCompletionUserMessageParam] = [{"role": "user", "content": "Talk."}]
    with (
        openai.OpenAI(api_key=key, base_url=product.url + "/v1", max_retries=0) as client,
        client.chat.completions.create(model="default", messages=question, max_tokens=4000, stream=True) as stream,
    ):
        assert any(chunk.choices[0].delta.content for chunk in stream)
    (row,) = records_of(product, key, 1)
    assert row["outcome"] == "client_gone"
