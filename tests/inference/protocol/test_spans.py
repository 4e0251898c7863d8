"""Spans for a collector: whose children they are, which are kept, and that a process ends without waiting for it."""

from __future__ import annotations

import logging
import socket
import threading
import time

import pytest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from inference.protocol.spans import Seldom, Spans, context_of, failed, traceparent_of, within

CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def told() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def spans(told: InMemorySpanExporter) -> Spans:
    return Spans("service", SimpleSpanProcessor(told))


def test_it_works(spans: Spans, told: InMemorySpanExporter) -> None:
    span = spans.begin("chat", traceparent=CALLER, tracestate="vendor=1", start_ns=1_000)
    traceparent = traceparent_of(span)
    spans.add("auth", within(span), 1_000, 2_000, {"a": 1})
    assert traceparent is not None
    spans.add("queue", context_of(traceparent), 2_000, 3_000)
    failed(span, "timeout_error")
    span.end(4_000)

    auth, queue, chat = told.get_finished_spans()
    assert chat.context is not None
    assert f"{chat.context.trace_id:032x}" in CALLER
    assert chat.parent is not None
    assert f"{chat.parent.span_id:016x}" in CALLER
    assert chat.context.trace_state == {"vendor": "1"}
    assert (chat.start_time, chat.end_time) == (1_000, 4_000)
    assert chat.attributes == {"error.type": "timeout_error"}
    for child in (auth, queue):
        assert child.parent is not None
        assert child.parent.span_id == chat.context.span_id
        assert child.parent.trace_id == chat.context.trace_id
    assert (auth.start_time, auth.end_time, auth.attributes) == (1_000, 2_000, {"a": 1})
    assert chat.resource.attributes["service.name"] == "service"


@pytest.mark.parametrize("traceparent", ["", "nonsense", CALLER.replace("0af7651916cd43dd8448eb211c80319c", "0" * 32)])
def test_a_caller_that_has_no_trace_begins_one(spans: Spans, told: InMemorySpanExporter, traceparent: str) -> None:
    spans.begin("chat", traceparent=traceparent, start_ns=1).end()
    (chat,) = told.get_finished_spans()
    assert chat.parent is None


def test_a_trace_that_its_caller_does_not_keep_is_not_kept(spans: Spans, told: InMemorySpanExporter) -> None:
    span = spans.begin("chat", traceparent=CALLER[:-1] + "0", start_ns=1)
    spans.add("auth", within(span), 1, 2)
    assert traceparent_of(span) is None
    span.end()
    assert told.get_finished_spans() == ()


def test_with_a_seed_it_is_the_same_span_in_each_process(spans: Spans, told: InMemorySpanExporter) -> None:
    began = spans.begin("chat", seed="msg_1", start_ns=1)
    other = Spans("another", SimpleSpanProcessor(told))
    ended, without = other.begin("chat", seed="msg_1", start_ns=1), other.begin("chat", start_ns=1)
    assert traceparent_of(ended) == traceparent_of(began)
    assert traceparent_of(without) != traceparent_of(began)
    spans.add("enqueue", within(began), 1, 2)
    ended.end(3)

    enqueue, chat = told.get_finished_spans()
    assert (enqueue.parent and enqueue.parent.span_id) == (chat.context and chat.context.span_id)
    assert enqueue.context is not None
    assert chat.context is not None
    assert enqueue.context.span_id != chat.context.span_id, "only its own id follows from the seed"


def test_a_clock_that_goes_back_makes_no_negative_time(spans: Spans, told: InMemorySpanExporter) -> None:
    spans.add("queue", context_of(""), 5, 3)
    (queue,) = told.get_finished_spans()
    assert (queue.start_time, queue.end_time) == (5, 5)


def test_a_collector_that_does_not_answer_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
        spans = Spans("service")
        for _ in range(5000):  # more than are kept
            spans.add("queue", context_of(""), 1, 2)
        started = time.monotonic()
        spans.close(within_s=0.2)
        assert time.monotonic() - started < 5
        while any(thread.name in ("last spans", "OtelBatchSpanRecordProcessor") for thread in threading.enumerate()):
            assert time.monotonic() - started < 30
            time.sleep(0.01)


def test_the_same_complaint_comes_seldom(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("complaining")
    logger.addFilter(Seldom())
    for number in range(3):
        logger.warning("batch %d failed", number)
        logger.warning("something else")
    assert caplog.messages == ["batch 0 failed", "something else"]
