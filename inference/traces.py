"""What a worker tells of a message in its request's trace: queue, prefill, decode and safety, once it is settled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from inference.protocol.reports import Settlement
from inference.protocol.requests import GenerationRequest

if TYPE_CHECKING:
    from inference.protocol.spans import Fact, Spans


def tell(spans: Spans, request: GenerationRequest, settlement: Settlement) -> None:
    """Tell of a message, unless nobody follows its trace."""
    if request.traceparent is None:
        return
    from inference.protocol.spans import context_of

    within = context_of(request.traceparent)
    about: dict[str, Fact] = {
        "gen_ai.request.model": request.model,
        "gen_ai.response.id": request.id,
        "sluice.attempts": settlement.attempts,
    }
    ended = _ns(settlement.finished_at * 1000)
    claimed = ended - _ns(settlement.generation_ms)
    came = claimed - _ns(settlement.queue_ms)
    spans.add("queue", within, came, claimed, {**about, "sluice.priority": request.priority})
    if settlement.prefill_ms is not None:
        first = claimed + _ns(settlement.prefill_ms)
        prompt: dict[str, Fact] = {
            "gen_ai.usage.input_tokens": settlement.input_tokens,
            "gen_ai.usage.cache_read.input_tokens": settlement.cached_tokens,
        }
        begun = claimed + _ns(settlement.batch_wait_ms)
        if begun > claimed:
            spans.add("batch_wait", within, claimed, begun, about)
        spans.add("prefill", within, begun, first, about | prompt)
        answer: dict[str, Fact] = {
            "gen_ai.usage.output_tokens": settlement.output_tokens,
            "sluice.outcome": settlement.outcome,
        }
        spans.add("decode", within, first, ended, about | answer)
    if settlement.checks:
        # Checks run between tokens: their times are added up, and shown as if they had come first.
        spent: dict[str, Fact] = {f"sluice.safety.{name}_ms": spent_ms for name, spent_ms in settlement.checks.items()}
        spent |= {"sluice.safety.summed": True, "sluice.safety.held_tokens": settlement.held_tokens}
        spans.add("safety", within, claimed, claimed + _ns(sum(settlement.checks.values())), about | spent)


def _ns(ms: float) -> int:
    return round(ms * 1e6)
