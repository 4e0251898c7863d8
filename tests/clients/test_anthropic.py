"""Anthropic's Python client: the stream's accumulator, plain calls, typed errors, leaving early."""

from __future__ import annotations

from collections.abc import Iterator

import anthropic
import pytest
from anthropic.types import MessageParam

from tests.clients.conftest import SAID, SAY
from tests.e2e.conftest import Product, records_of

pytestmark = pytest.mark.clients

QUESTION: list[MessageParam] = [{"role": "user", "content": SAY}]


@pytest.fixture
def client(product: Product, key: str) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(api_key=key, base_url=product.url, max_retries=0) as client:
        yield client


def test_the_helper_accumulates(client: anthropic.Anthropic) -> None:
    with client.messages.stream(model="default", max_tokens=100, messages=QUESTION) as stream:
        events = list(stream)
        final = stream.get_final_message()
        assert stream.response.headers["request-id"].startswith("req_")
    kinds = [event.type for event in events]
    deltas = kinds.count("text")
    assert deltas > 5
    assert kinds == [
        "message_start", "content_block_start", *["content_block_delta", "text"] * deltas,
        "content_block_stop", "message_delta", "message_stop",
    ]  # fmt: skip
    assert "".join(event.text for event in events if event.type == "text") == SAID
    assert [event.snapshot for event in events if event.type == "text"][-1] == SAID
    assert [block.text for block in final.content if block.type == "text"] == [SAID]
    assert (final.role, final.stop_reason, final.stop_sequence) == ("assistant", "end_turn", None)
    assert final.usage.output_tokens >= deltas


def test_raw_events(client: anthropic.Anthropic) -> None:
    with client.messages.create(model="default", max_tokens=6, messages=QUESTION, stream=True) as stream:
        events = list(stream)
    (end,) = (event for event in events if event.type == "message_delta")
    assert (end.delta.stop_reason, end.usage.output_tokens) == ("max_tokens", 6)
    assert events[-1].type == "message_stop"


def test_text_stream_and_a_stop_sequence(client: anthropic.Anthropic) -> None:
    with client.messages.stream(
        model="default", max_tokens=100, system="Be brief.", stop_sequences=["🌊"], messages=QUESTION
    ) as stream:
        assert "".join(stream.text_stream) == SAID.partition("🌊")[0]
        final = stream.get_final_message()
    assert (final.stop_reason, final.stop_sequence) == ("stop_sequence", "🌊")


def test_one_json(client: anthropic.Anthropic) -> None:
    message = client.messages.create(model="default", max_tokens=100, messages=QUESTION)
    assert [block.text for block in message.content if block.type == "text"] == [SAID]
    assert (message.type, message.stop_reason) == ("message", "end_turn")
    assert message._request_id
    counted = client.messages.count_tokens(model="default", messages=QUESTION)
    assert message.usage.input_tokens == counted.input_tokens > 10


async def test_the_asynchronous_client(product: Product, key: str) -> None:
    async with (
        anthropic.AsyncAnthropic(api_key=key, base_url=product.url, max_retries=0) as client,
        client.messages.stream(model="default", max_tokens=100, messages=QUESTION) as stream,
    ):
        assert await stream.get_final_text() == SAID


def test_models(client: anthropic.Anthropic) -> None:
    models = list(client.models.list())
    assert [model.id for model in models] == ["SmolLM2-135M-Instruct"]
    assert client.models.retrieve(models[0].id) == models[0]
    assert models[0].type == "model"
    assert models[0].created_at.year > 2000


def test_the_beta_resources(client: anthropic.Anthropic) -> None:
    """They add a parameter to the query."""
    message = client.beta.messages.create(model="default", max_tokens=1, messages=[{"role": "user", "content": SAY}])
    assert message.usage.output_tokens == 1
    assert [model.id for model in client.beta.models.list(limit=1)] == ["SmolLM2-135M-Instruct"]
    assert client.beta.models.retrieve("default").id == "SmolLM2-135M-Instruct"
    assert client.beta.messages.count_tokens(model="default", messages=[{"role": "user", "content": SAY}]).input_tokens


def test_a_body_that_is_too_large(client: anthropic.Anthropic) -> None:
    large: list[MessageParam] = [{"role": "user", "content": "x" * 20_000_000}]
    with pytest.raises(anthropic.RequestTooLargeError) as caught:
        client.messages.create(model="default", max_tokens=1, messages=large)
    assert (caught.value.status_code, caught.value.request_id is not None) == (413, True)


@pytest.mark.parametrize("streamed", [False, True])
def test_errors_have_their_classes(client: anthropic.Anthropic, streamed: bool) -> None:
    create = client.messages.create
    with pytest.raises(anthropic.BadRequestError, match="max_tokens") as bad:
        create(model="default", max_tokens=0, messages=QUESTION, stream=streamed)
    with pytest.raises(anthropic.NotFoundError, match="no-such-model") as missing:
        create(model="no-such-model", max_tokens=1, messages=QUESTION, stream=streamed)
    stranger = client.copy(api_key="sk-sluice-nobody")
    with pytest.raises(anthropic.AuthenticationError) as unknown:
        stranger.messages.create(model="default", max_tokens=1, messages=QUESTION, stream=streamed)
    kinds = [caught.value.type for caught in (bad, missing, unknown)]
    assert kinds == ["invalid_request_error", "not_found_error", "authentication_error"]
    for caught in (bad, missing, unknown):
        assert caught.value.request_id
        assert isinstance(caught.value.body, dict)
        assert caught.value.body["request_id"] == caught.value.request_id


def test_who_leaves_ends_the_message(product: Product) -> None:
    key = product.manage("createkey", "leaves", "--org", "leaves")
    with (
        anthropic.Anthropic(api_key=key, base_url=product.url, max_retries=0) as client,
        client.messages.stream(
            model="default", max_tokens=4000, messages=[{"role": "user", "content": "Talk."}]
        ) as stream,
    ):
        assert next(iter(stream.text_stream))
    (row,) = records_of(product, key, 1)
    assert row["outcome"] == "client_gone"
    assert row["output_tokens"] < 400
