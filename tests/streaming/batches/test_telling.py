"""What is told of a batch's requests: a trace of each, whoever begins and ends it, and stages for its record."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest
import redis
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from batches.models import Batch
from inference.protocol import keys
from inference.protocol.reports import Delivery
from inference.protocol.settings import SettingError, Settings
from inference.protocol.spans import Spans
from inference.worker import Worker
from streaming.batches import runner
from tests.batches.tools import counts_of, ids_of, make_batch, params
from tests.conftest import Tenant
from tests.inference.tools import entries_of
from tests.streaming.batches.conftest import Go

pytestmark = pytest.mark.django_db(transaction=True)

STAGES = {"validation", "tokenizing", "admission", "enqueue"}
OF_WORKER = {"queue", "prefill", "decode"}


@pytest.fixture
def told(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """All spans. Each runner has spans of its own, as if it were in a process of its own."""
    exporter = InMemorySpanExporter()

    def open_spans(*_: object) -> Spans:
        spans = Spans("batches", SimpleSpanProcessor(exporter))
        monkeypatch.setattr(spans, "close", lambda: None)  # it would close the exporter, which all of them share
        return spans

    monkeypatch.setattr(runner, "open_spans", open_spans)
    worker._spans = open_spans()
    yield exporter
    worker._spans = None


def trace_of(told: InMemorySpanExporter, message_id: str) -> tuple[ReadableSpan, dict[str, ReadableSpan]]:
    """Return a message's own span, and those within it."""
    spans: Sequence[ReadableSpan] = told.get_finished_spans()
    (root,) = (s for s in spans if s.parent is None and (s.attributes or {})["gen_ai.response.id"] == message_id)
    assert root.context is not None
    within = [span for span in spans if span.parent and span.parent.span_id == root.context.span_id]
    assert {span.parent.trace_id for span in within if span.parent} <= {root.context.trace_id}
    return root, {span.name: span for span in within}


def deliveries_of(store: redis.Redis) -> dict[str, Delivery]:
    found = [Delivery.decode(fields[b"r"]) for _, fields in entries_of(store, keys.DELIVERIES)]
    return {delivery.id: delivery for delivery in found}


def test_it_works(go: Go, alice: Tenant, told: InMemorySpanExporter, store: redis.Redis, settings: Settings) -> None:
    batch = make_batch(alice, *[params(f"Say {number}.", temperature=0.5) for number in range(3)])
    ids = ids_of(batch)
    go()
    roots = []
    for name in ids:
        root, within = trace_of(told, name)
        roots.append(root)
        assert within.keys() == STAGES | OF_WORKER
        assert root.name == f"chat {settings.model}"
        facts = root.attributes or {}
        assert facts["sluice.batch"] == batch.pk
        assert facts["sluice.priority"] == "batch"
        assert facts["gen_ai.request.temperature"] == 0.5
        assert facts["gen_ai.response.finish_reasons"] == ("max_tokens",)
        assert facts["gen_ai.usage.output_tokens"] == 3
        assert root.status.is_unset
        assert (root.start_time or 0) <= (within["validation"].start_time or 0) <= (root.end_time or 0)
    assert len({root.context.trace_id for root in roots if root.context}) == 3, "each request is a trace"


def test_stages_go_to_the_record(go: Go, alice: Tenant, worker: Worker, store: redis.Redis) -> None:
    batch = make_batch(alice, params())
    (name,) = ids_of(batch)
    go()
    delivery = deliveries_of(store)[name]
    assert delivery.stages.keys() == {f"{stage}_ms" for stage in STAGES}
    assert (delivery.reader, delivery.streamed, delivery.bytes_sent) == (batch.pk, False, 0)
    assert sum(delivery.stages.values()) < delivery.total_ms
    assert (delivery.ttft_ms, delivery.tbt_p99_ms) == (None, None), "nobody felt its pace"


def test_one_runner_begins_and_another_sees_the_end(
    go: Go, uncollected: Callable[[list[str]], None], alice: Tenant, told: InMemorySpanExporter, store: redis.Redis
) -> None:
    ids = ids_of(make_batch(alice, params(), params()))
    uncollected(ids)
    go()
    for name in ids:
        root, within = trace_of(told, name)
        assert within.keys() == STAGES | OF_WORKER
        assert (root.attributes or {})["gen_ai.response.finish_reasons"] == ("max_tokens",)
    assert deliveries_of(store).keys() == {*ids}


def test_a_refusal_says_why(go: Go, alice: Tenant, told: InMemorySpanExporter) -> None:
    batch = make_batch(alice, params(max_tokens=10**6))
    (name,) = ids_of(batch)
    go()
    root, within = trace_of(told, name)
    assert within.keys() == {"validation", "tokenizing"}
    facts = root.attributes or {}
    assert (facts["sluice.batch"], facts["error.type"]) == (batch.pk, "invalid_request_error")
    assert root.status.is_unset, "it is the caller's fault, not ours"


def test_without_the_extra_batches_go_on(
    go: Go, alice: Tenant, worker: Worker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise SettingError("install the extra")

    monkeypatch.setattr(runner, "open_spans", refuse)
    batch: Batch = make_batch(alice, params())
    go()
    assert counts_of(batch) == {"succeeded": 1}
    assert "no traces of batches: install the extra" in caplog.text
