"""Spans of OpenTelemetry, made from times that are measured anyway. Needs the extra `otel`.

A request's own span is begun with it, so that others can be its children; all others are made when they are over.
Where one process begins a request and another may see its end, both can begin its span: who sees the end tells it.
Whether a trace is kept is for whoever called to say, or else for OTEL_TRACES_SAMPLER.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from importlib.metadata import version

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from inference.protocol.heartbeats import process_id

AT_ONCE = 64  # spans in a batch: to encode more at a time would hold up the streams of a gateway
EXPORT_S = 5.0  # that a collector has for a batch; meanwhile spans wait, and then are dropped
CLOSE_S = 2.0  # that a process which ends waits for it

Fact = str | bool | int | float | Sequence[str]
Attributes = Mapping[str, Fact]

_W3C = TraceContextTextMapPropagator()


class Spans:
    """The spans of one process, on their way to a collector: in batches, from a thread."""

    def __init__(self, service: str, processor: SpanProcessor | None = None) -> None:
        """Without a `processor` they go where `OTEL_EXPORTER_OTLP_ENDPOINT` says."""
        about = {"service.version": version("sluice"), "service.instance.id": process_id()}
        if "OTEL_SERVICE_NAME" not in os.environ:
            about["service.name"] = service
        self._exporter: SpanExporter | None = None
        if processor is None:
            self._exporter = OTLPSpanExporter(timeout=_timeout_s())
            processor = BatchSpanProcessor(self._exporter, max_export_batch_size=_at_once())
        self._processor = processor
        self._ids = _Ids()
        provider = TracerProvider(resource=Resource.create(about), id_generator=self._ids, shutdown_on_exit=False)
        provider.add_span_processor(self._processor)
        self._tracer = provider.get_tracer("sluice", version("sluice"))

    def begin(self, name: str, *, traceparent: str = "", tracestate: str = "", seed: str = "", start_ns: int) -> Span:
        """Begin the span of a request, within the trace of its caller where there is one.

        Without one, a `seed` makes it the same span each time, whoever begins it. None is told before its end.
        """
        context = context_of(traceparent, tracestate)
        self._ids.seed = seed
        try:
            return self._tracer.start_span(name, context, kind=SpanKind.SERVER, start_time=start_ns)
        finally:
            self._ids.seed = ""

    def add(self, name: str, within: Context, start_ns: int, end_ns: int, attributes: Attributes | None = None) -> None:
        """Tell of what is over."""
        span = self._tracer.start_span(name, within, attributes=attributes, start_time=start_ns)
        span.end(max(start_ns, end_ns))

    def close(self, within_s: float = CLOSE_S) -> None:
        """Tell what was not told yet, unless the collector takes too long."""
        closing = threading.Thread(target=self._processor.shutdown, name="last spans", daemon=True)
        closing.start()
        closing.join(within_s)
        if closing.is_alive() and self._exporter is not None:
            self._exporter.shutdown()  # what is left fails at once


class _Ids(threading.local, RandomIdGenerator):
    """Random ids, but while this thread has a seed: then those that follow from it."""

    seed = ""

    def generate_trace_id(self) -> int:
        return _hash(self.seed, 16) if self.seed else super().generate_trace_id()

    def generate_span_id(self) -> int:
        return _hash(self.seed, 8) if self.seed else super().generate_span_id()


def _hash(seed: str, size: int) -> int:
    return int.from_bytes(blake2b(seed.encode(), digest_size=size).digest()) or 1  # 0 would be no id


def context_of(traceparent: str, tracestate: str = "") -> Context:
    """Return what is a span's parent by W3C's headers; one that cannot be read is none."""
    return _W3C.extract({"traceparent": traceparent, "tracestate": tracestate}, Context())


def within(span: Span) -> Context:
    """Return what makes others the children of a span."""
    return set_span_in_context(span, Context())


def traceparent_of(span: Span) -> str | None:
    """Return what tells another process of a span, None where its trace is not kept."""
    carrier: dict[str, str] = {}
    _W3C.inject(carrier, within(span))
    return carrier.get("traceparent") if span.is_recording() else None


def failed(span: Span, kind: str) -> None:
    """Note that what a span tells of went wrong."""
    span.set_status(Status(StatusCode.ERROR))
    span.set_attribute("error.type", kind)


class Seldom(logging.Filter):
    """Lets the same complaint pass once a minute: a collector that is away is one, not one for each batch."""

    def __init__(self, every_s: float = 60.0) -> None:
        super().__init__()
        self._every_s, self._due = every_s, defaultdict[str, float](float)

    def filter(self, record: logging.LogRecord) -> bool:
        """Say whether a line is written."""
        now = time.monotonic()
        is_due = now >= self._due[record.msg]
        if is_due:
            self._due[record.msg] = now + self._every_s
        return is_due


logging.getLogger(OTLPSpanExporter.__module__).addFilter(Seldom())


# Where the environment has values of its own, OpenTelemetry reads those.


def _timeout_s() -> float | None:
    names = ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT")
    return None if any(name in os.environ for name in names) else EXPORT_S


def _at_once() -> int | None:
    return None if "OTEL_BSP_MAX_EXPORT_BATCH_SIZE" in os.environ else AT_ONCE
