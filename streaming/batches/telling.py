"""What a runner tells of the requests of batches: where their time went, to records and, if anybody follows, in traces.

A runner may begin a request, and another one, in another process, see its end. So the span of a request follows from
its id: each can name it as the parent of others, and who sees the end tells it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from common.errors import ApiError
from inference.protocol.minutes import BAD
from inference.protocol.reports import Delivery
from inference.protocol.requests import GenerationRequest
from streaming.batches.work import Running
from streaming.eventlog import EventLog
from streaming.traces import add_stages, facts_of, facts_of_request, name_of
from streaming.verdicts import verdict_of, verdict_of_error

if TYPE_CHECKING:
    from opentelemetry.trace import Span

    from inference.protocol.spans import Fact, Spans

OPERATION = "chat"


class Telling:
    """Tells of requests: without `spans`, to the records alone."""

    def __init__(self, log: EventLog, spans: Spans | None, *, runner: str) -> None:
        self._log, self._spans, self._runner = log, spans, runner

    def followed(self, request: GenerationRequest) -> GenerationRequest:
        """Return a request as its worker gets it: with where its own spans belong."""
        if self._spans is None:
            return request
        from inference.protocol.spans import traceparent_of

        return replace(request, traceparent=traceparent_of(self._span(request.id, request.created_at)))

    def begun(self, request: GenerationRequest, stages: Mapping[str, float]) -> dict[str, Fact]:
        """Tell of a request that is queued now; return what is to be told of it at its end."""
        if self._spans is None:
            return {}
        from inference.protocol.spans import within

        inside = within(self._span(request.id, request.created_at))
        add_stages(self._spans, inside, round(request.created_at * 1e9), stages)
        return facts_of_request(OPERATION, request)

    def refused(self, message_id: str, batch_id: str, stages: Mapping[str, float], error: ApiError) -> None:
        """Tell of a request that was not queued."""
        if self._spans is None:
            return
        from inference.protocol.spans import within

        created_at = time.time() - sum(stages.values()) / 1000
        span = self._span(message_id, created_at)
        add_stages(self._spans, within(span), round(created_at * 1e9), stages)
        span.set_attributes({"sluice.batch": batch_id, "gen_ai.response.id": message_id, "error.type": error.kind})
        _end(span, verdict_of_error(error))

    async def ended(self, one: Running, frames: bytes) -> None:
        """Tell of a message that has ended, with all its events, and of the time until that was seen."""
        facts = await self._log.facts(one.id)
        if facts is None:
            return
        delivery = Delivery(
            **facts,
            reader=one.batch.id,
            gateway=self._runner,
            streamed=False,
            ttft_ms=None,
            stream_ms=None,
            tbt_p99_ms=None,
            total_ms=max(0.0, (time.time() - facts["created_at"]) * 1000),
            bytes_sent=0,
            stages=dict(one.stages),
        )
        await self._log.report(delivery)
        if self._spans is not None:
            span = self._span(one.id, delivery.created_at)
            span.update_name(name_of(OPERATION, one.model))
            known = {"sluice.organization": delivery.organization, "sluice.batch": one.batch.id}
            span.set_attributes({**one.facts, **known, **facts_of(delivery, frames)})
            _end(span, verdict_of(frames))

    def _span(self, message_id: str, created_at: float) -> Span:
        assert self._spans is not None, "nobody follows"
        return self._spans.begin(OPERATION, seed=message_id, start_ns=round(created_at * 1e9))


def _end(span: Span, verdict: str) -> None:
    from inference.protocol.spans import failed

    if verdict.startswith(BAD):
        failed(span, verdict.removeprefix(BAD))
    span.end()
