"""What a gateway tells of a request in its trace: a span for it, and one within for each stage, when it has ended.

The names are OpenTelemetry's for generative AI, and `sluice.*` where it has none. No prompt, answer or key is told.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from inference.protocol.minutes import BAD
from inference.protocol.reports import Delivery
from inference.protocol.requests import GenerationRequest
from streaming.asgi import Scope, header
from streaming.measures import output_tokens
from streaming.timing import Stopwatch
from streaming.verdicts import stop_reason

if TYPE_CHECKING:
    from opentelemetry.context import Context

    from inference.protocol.spans import Fact, Spans


class Trace:
    """The spans of one request."""

    def __init__(self, spans: Spans, scope: Scope, watch: Stopwatch, *, request_id: str, operation: str) -> None:
        """Begin the request's own span, when it is fully received."""
        self._spans, self._watch, self._operation = spans, watch, operation
        self._delivery: Delivery | None = None
        self._began_ns = time.time_ns() - round((time.monotonic() - watch.started) * 1e9)
        headers = {name: header(scope, name.encode()) for name in ("traceparent", "tracestate")}
        self._span = spans.begin(operation, **headers, start_ns=self._began_ns)
        self._facts: dict[str, Fact] = {"sluice.request_id": request_id, "http.request.method": scope["method"]}

    def followed(self, request: GenerationRequest) -> GenerationRequest:
        """Return the request as its worker gets it: with where its own spans belong."""
        from inference.protocol.spans import traceparent_of

        self._span.update_name(name_of(self._operation, request.model))
        self._facts |= facts_of_request(self._operation, request)
        return replace(request, traceparent=traceparent_of(self._span))

    def delivered(self, delivery: Delivery) -> None:
        """Note what the reader felt."""
        self._delivery = delivery

    def refused(self, status: int, kind: str) -> None:
        """Note an error that was answered."""
        self._facts |= {"http.response.status_code": status, "error.type": kind}

    def end(self, verdict: str, last_sent: bytes) -> None:
        """Tell all of it; `last_sent` are the events that the client was sent last."""
        from inference.protocol.spans import failed, within

        ended_ns = time.time_ns()
        if self._span.is_recording():
            if self._delivery is not None:
                self._facts |= facts_of(self._delivery, last_sent)
            self._span.set_attributes(self._facts)
            if verdict.startswith(BAD):
                failed(self._span, verdict.removeprefix(BAD))
            inside = within(self._span)
            start_ns = add_stages(self._spans, inside, self._began_ns, self._watch.stages)
            if self._delivery is not None:
                about: dict[str, Fact] = {
                    "sluice.bytes": self._delivery.bytes_sent,
                    "sluice.resumed": self._delivery.resumed,
                    "sluice.write_ms": round(self._watch.write_s * 1000, 3),  # for the client's socket to take it
                }
                self._spans.add("stream", inside, start_ns, ended_ns, about)
        self._span.end(ended_ns)


def name_of(operation: str, model: str) -> str:
    """Return what the span of a request is called."""
    return f"{operation} {model}"


def add_stages(spans: Spans, within: Context, start_ns: int, stages: Mapping[str, float]) -> int:
    """Tell of stages that followed each other, in ms by their names; return when the last of them ended."""
    for name, spent_ms in stages.items():
        end_ns = start_ns + round(spent_ms * 1e6)
        spans.add(name.removesuffix("_ms"), within, start_ns, end_ns)
        start_ns = end_ns
    return start_ns


def facts_of_request(operation: str, request: GenerationRequest) -> dict[str, Fact]:
    """Return what is told of a request."""
    sampling = request.sampling
    return {
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": "sluice",
        "gen_ai.request.model": request.model,
        "gen_ai.request.max_tokens": request.max_tokens,
        "gen_ai.request.temperature": sampling.temperature,
        "gen_ai.request.top_p": sampling.top_p,
        "gen_ai.request.top_k": sampling.top_k,
        "sluice.organization": request.organization,
        "sluice.priority": request.priority,
    }


def facts_of(delivery: Delivery, last_sent: bytes) -> dict[str, Fact]:
    """Return what is told of an answer."""
    reason = stop_reason(last_sent)
    facts: dict[str, Fact] = {
        "gen_ai.response.id": delivery.id,
        "gen_ai.response.model": delivery.model,
        "gen_ai.response.finish_reasons": [reason or "error"],
        "gen_ai.request.stream": delivery.streamed,
        "gen_ai.usage.input_tokens": delivery.input_tokens,
    }
    if reason:
        facts["gen_ai.usage.output_tokens"] = output_tokens(last_sent)
    if delivery.ttft_ms is not None:
        names = ("gen_ai.response.time_to_first_chunk", "gen_ai.server.time_to_first_token")
        facts |= dict.fromkeys(names, round(delivery.ttft_ms / 1000, 6))
    if delivery.tbt_p99_ms is not None:
        facts["sluice.tbt_p99_ms"] = round(delivery.tbt_p99_ms, 3)
    return facts
