"""What a worker tells of a message in its request's trace."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from inference.engines.base import StepOutput
from inference.protocol.spans import Spans
from inference.traces import tell
from tests.inference.protocol.test_spans import CALLER
from tests.inference.test_meter import settlement
from tests.inference.tools import Bench, a_request, enqueue


@pytest.fixture
def told(bench: Bench) -> InMemorySpanExporter:
    exporter = InMemorySpanExporter()
    bench.worker._spans = Spans("worker", SimpleSpanProcessor(exporter))
    return exporter


def run(bench: Bench, traceparent: str | None) -> None:
    enqueue(bench.store, a_request(traceparent=traceparent))
    bench.turn()
    bench.turn(StepOutput("msg_1", (1, 2), "end_of_text", cached_tokens=2))


def test_it_works(bench: Bench, told: InMemorySpanExporter) -> None:
    run(bench, CALLER)

    queue, prefill, decode = told.get_finished_spans()
    assert [span.name for span in (queue, prefill, decode)] == ["queue", "prefill", "decode"]
    assert (queue.end_time, prefill.end_time) == (prefill.start_time, decode.start_time)
    for span in (queue, prefill, decode):
        assert span.parent is not None
        assert f"{span.parent.span_id:016x}" in CALLER
        assert span.attributes is not None
        assert span.attributes["gen_ai.response.id"] == "msg_1"
    assert prefill.attributes is not None
    assert prefill.attributes["gen_ai.usage.cache_read.input_tokens"] == 2
    assert decode.attributes is not None
    assert decode.attributes["sluice.outcome"] == "end_turn"
    assert decode.attributes["gen_ai.usage.output_tokens"] == 2


def test_the_time_of_safety_checks_is_told() -> None:
    told = InMemorySpanExporter()
    spans = Spans("worker", SimpleSpanProcessor(told))
    tell(spans, a_request(traceparent=CALLER), settlement(checks={"patterns": 1.5, "toxicity": 3.0}))

    *_, safety = told.get_finished_spans()
    assert safety.name == "safety"
    assert (safety.end_time or 0) - (safety.start_time or 0) == 4_500_000
    assert safety.attributes is not None
    assert safety.attributes["sluice.safety.toxicity_ms"] == 3.0


def test_nobody_follows_most(bench: Bench, told: InMemorySpanExporter) -> None:
    run(bench, None)
    assert told.get_finished_spans() == ()
