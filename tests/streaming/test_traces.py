"""A request's trace: from its caller over the gateway to the worker and back."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
import redis
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from inference.protocol.settings import Settings
from inference.protocol.spans import Spans
from inference.worker import Worker
from streaming.gateway import Gateway
from tests.inference.protocol.test_spans import CALLER
from tests.streaming.conftest import Ask, a_body, settlement_of

STAGES = {"auth", "validation", "tokenizing", "admission", "enqueue", "stream"}
OF_WORKER = {"queue", "prefill", "decode"}


@pytest.fixture
def told(gateway: Gateway, worker: Worker) -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    gateway.spans = Spans("gateway", SimpleSpanProcessor(exporter))
    worker._spans = Spans("worker", SimpleSpanProcessor(exporter))
    yield exporter
    worker._spans = None


async def spans_of(told: InMemorySpanExporter, *names: str) -> dict[str, ReadableSpan]:
    """Wait for spans of these names; return all by name."""
    async with asyncio.timeout(5):
        while not {*names} <= (found := {span.name: span for span in told.get_finished_spans()}).keys():
            await asyncio.sleep(0.01)
    return found


async def test_it_works(ask: Ask, told: InMemorySpanExporter, settings: Settings) -> None:
    r = await (await ask("POST", "/v1/messages", a_body(stream=True), traceparent=CALLER)).whole()
    name = f"chat {settings.model}"
    found = await spans_of(told, name, *OF_WORKER)

    chat = found.pop(name)
    assert found.keys() == STAGES | OF_WORKER
    assert chat.parent is not None
    assert f"{chat.parent.span_id:016x}" in CALLER
    assert chat.context is not None
    for span in found.values():
        assert span.parent is not None
        assert span.parent.span_id == chat.context.span_id
        assert f"{span.parent.trace_id:032x}" in CALLER
    facts = dict(chat.attributes or {})
    assert facts["gen_ai.operation.name"] == "chat"
    assert facts["gen_ai.request.model"] == settings.model
    assert facts["gen_ai.response.id"] == r.events[0]["message"]["id"]
    assert facts["gen_ai.response.finish_reasons"] == ("max_tokens",)
    assert facts["gen_ai.usage.input_tokens"] == r.events[0]["message"]["usage"]["input_tokens"]
    assert facts["gen_ai.usage.output_tokens"] == 5
    assert 0 < float(str(facts["gen_ai.response.time_to_first_chunk"])) < 5
    assert facts["sluice.request_id"] == r.headers["request-id"]
    stream = found["stream"]
    assert chat.start_time is not None
    assert chat.start_time <= (found["auth"].start_time or 0) <= (stream.start_time or 0) <= (stream.end_time or 0)
    assert stream.end_time == chat.end_time


async def test_an_answer_in_one_piece_is_traced(ask: Ask, told: InMemorySpanExporter, settings: Settings) -> None:
    await (await ask("POST", "/v1/chat/completions", a_body())).whole()
    found = await spans_of(told, f"chat {settings.model}", *OF_WORKER)
    chat = found[f"chat {settings.model}"]
    assert chat.parent is None
    assert (chat.attributes or {})["gen_ai.usage.output_tokens"] == 5


async def test_a_refusal_says_why(ask: Ask, told: InMemorySpanExporter) -> None:
    await (await ask("POST", "/v1/messages", {})).whole()
    (auth, chat) = told.get_finished_spans()
    assert (auth.name, chat.name) == ("auth", "chat")
    assert (chat.attributes or {})["error.type"] == "invalid_request_error"
    assert (chat.attributes or {})["http.response.status_code"] == 400
    assert chat.status.is_unset, "it is the caller's fault, not ours"


async def test_a_failure_is_marked(ask: Ask, told: InMemorySpanExporter, gateway: Gateway, store: redis.Redis) -> None:
    gateway.log._settings = Settings(queue_limit=1)
    store.zadd(f"sluice:{{q:{gateway.settings.model}}}:ready", {"other": 1e15, "another": 1e15})
    r = await (await ask("POST", "/v1/messages", a_body())).whole()
    assert r.status == 529
    chat = told.get_finished_spans()[-1]
    assert (chat.attributes or {})["error.type"] == "overloaded_error"
    assert not chat.status.is_ok
    assert not chat.status.is_unset


async def test_who_reads_a_detached_stream_has_a_trace_of_their_own(
    ask: Ask, told: InMemorySpanExporter, settings: Settings, store: redis.Redis
) -> None:
    made = (await (await ask("POST", "/v1/streams", a_body())).whole()).json()
    await settlement_of(store, settings)
    await (await ask("GET", f"/v1/streams/{made['id']}")).whole()
    found = await spans_of(told, "read_stream", f"chat {settings.model}", *OF_WORKER)
    assert (found["read_stream"].attributes or {})["gen_ai.response.id"] == made["id"]


async def test_no_words_are_told(ask: Ask, told: InMemorySpanExporter, settings: Settings) -> None:
    body = a_body("cardiomyopathy", stream=True, stop_sequences=["periodontitis"])
    r = await (await ask("POST", "/v1/messages", body, key="good")).whole()
    found = await spans_of(told, f"chat {settings.model}", *OF_WORKER)
    words = ["cardiomyopathy", "periodontitis", "good"]
    words += [event["delta"]["text"].strip() for event in r.events if event["type"] == "content_block_delta"]
    said = " ".join(span.to_json() for span in found.values())
    assert [word for word in words if len(word) > 3 and word in said] == []
