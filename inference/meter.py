"""How fast a worker is, and how much its prefix cache saves: for its heartbeat, and for the histograms."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from inference.engines.base import StepOutput
from inference.protocol.metrics import STAGE, Tally
from inference.protocol.minutes import MinuteTally
from inference.protocol.reports import Settlement

RATE_S = 10.0  # the time over which tokens per second are measured
HITS_S = 60.0  # and the hit rate of the prefix cache

_Totals = tuple[float, int, int, int]  # time; tokens generated, tokens of prompts, of these from the cache


class Meter:
    """Counts since the start of a worker."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.tally = Tally()
        self.minutes = MinuteTally()
        self._clock = clock
        self._generated = self._prompt = self._cached = 0
        self._past: deque[_Totals] = deque([(clock(), 0, 0, 0)])

    def heard(self, output: StepOutput) -> None:
        """Note what a step gave a message."""
        self._generated += len(output.token_ids)

    def settled(self, settlement: Settlement) -> None:
        """Note a message that has ended here."""
        self.tally.settled(settlement)
        if settlement.prefill_ms is not None:
            self._prompt += settlement.input_tokens
            self._cached += settlement.cached_tokens
        counts = self.minutes.of(settlement.model, settlement.organization)
        counts.settled(settlement)
        for name, ms in _stages(settlement):
            self.tally.observe(STAGE, ms / 1000, name)
            counts.stage(name, ms)

    def about(self) -> dict[str, Any]:
        """Return the part of the heartbeat that is measured here; called once in each of them."""
        now = (self._clock(), self._generated, self._prompt, self._cached)
        self._past.append(now)
        while now[0] - self._past[0][0] > HITS_S:
            self._past.popleft()
        since = next(totals for totals in self._past if now[0] - totals[0] <= RATE_S)
        seconds, prompt = now[0] - since[0], self._prompt - self._past[0][2]
        return {
            "generated_tokens": self._generated,
            "prompt_tokens": self._prompt,
            "cached_tokens": self._cached,
            "tokens_per_s": round((self._generated - since[1]) / seconds, 1) if seconds else 0.0,
            "prefix_hit_rate": round((self._cached - self._past[0][3]) / prompt, 4) if prompt else 0.0,
        }


def _stages(settlement: Settlement) -> Iterator[tuple[str, float]]:
    """Give the stages that a message went through here, and the ms that each took."""
    yield "queue", settlement.queue_ms
    if settlement.prefill_ms is not None:
        yield "batch_wait", settlement.batch_wait_ms
        yield "prefill", settlement.prefill_ms - settlement.batch_wait_ms
        yield "decode", settlement.generation_ms - settlement.prefill_ms
    if settlement.checks:
        yield "safety", sum(settlement.checks.values())
