"""What this gateway measures, on its way to Redis: never in the path of a token, but when a stream has ended."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable
from typing import Any

from redis.asyncio import Redis

from common.errors import ApiError
from inference.protocol import keys, minutes, scripts
from inference.protocol.metrics import (
    BYTES,
    ERRORS,
    HEARTBEATS,
    LIMITED,
    LOOP_LAG,
    RESUMES,
    SLOW_CLIENTS,
    STAGE,
    TBT,
    TOTAL,
    TPOT,
    TTFT,
    Tally,
)  # fmt: skip
from inference.protocol.minutes import MinuteTally
from inference.protocol.reports import Delivery, Settlement
from quotas.standings import Standing
from streaming.eventlog import EventLog
from streaming.timing import Stopwatch
from streaming.verdicts import Answer

FLUSH_S = 1.0
MINUTES_S = 5.0  # between flushes of what is counted by the minute: meanwhile most streams meet in the same fields

_OUTPUT_TOKENS = re.compile(rb'"output_tokens":(\d+)')


class Measures:
    """The counts of one gateway."""

    def __init__(self, client: Redis, log: EventLog, *, gateway: str, about: Callable[[], dict[str, Any]]) -> None:
        """`about` tells what the heartbeat says."""
        self._redis, self._log, self._gateway, self._about = client, log, gateway, about
        self._counter = f"gateway-{gateway}"  # a worker's process may have the same id: containers share host names
        self._tally, self._minutes = Tally(), MinuteTally()
        self._minutes_due, self._flushing, self._has_left = 0.0, asyncio.Lock(), False

    def delivered(self, delivery: Delivery, watch: Stopwatch, last_frames: bytes) -> None:
        """Note what one reader felt; `last_frames` are the events that it was sent last."""
        counts = self._minutes.of(delivery.model, delivery.organization)
        if delivery.ttft_ms is not None:
            self._tally.observe(TTFT, delivery.ttft_ms / 1000, delivery.model)
            counts.observe(minutes.TTFT, (delivery.ttft_ms / 1000,))
        if delivery.tbt_p99_ms is not None:
            self._tally.observe_all(TBT, watch.gaps, delivery.model)
            counts.observe(minutes.TBT, watch.gaps)
        if delivery.stream_ms is not None and (num_tokens := output_tokens(last_frames)) > 1:
            tpot_s = delivery.stream_ms / 1000 / (num_tokens - 1)
            self._tally.observe(TPOT, tpot_s, delivery.model)
            counts.observe(minutes.TPOT, (tpot_s,))
        self._tally.observe(TOTAL, delivery.total_ms / 1000, delivery.model)
        self._tally.count(BYTES, by=delivery.bytes_sent)
        self._tally.count(HEARTBEATS, by=watch.pings)
        self._tally.count(RESUMES, by=delivery.resumed)
        # In between others, so that no record has it as one of a row.
        write = {"write": watch.write_s * 1000} if delivery.streamed else {}
        for name, spent_ms in (delivery.stages | write).items():
            stage = name.removesuffix("_ms")
            self._tally.observe(STAGE, spent_ms / 1000, stage)
            counts.stage(stage, spent_ms)

    def answered(self, answer: Answer, verdict: str) -> None:
        """Note what a request came to."""
        self._tally.answered(verdict)
        self._minutes.of(answer.model, answer.organization).add(minutes.ANSWERS, verdict)

    def settled(self, settlement: Settlement) -> None:
        """Note a message that has ended here, since no worker would end it."""
        self._tally.settled(settlement)
        self._minutes.of(settlement.model, settlement.organization).settled(settlement)

    def refused(self, error: ApiError) -> None:
        """Note a request that was answered with an error."""
        self._tally.count(ERRORS, str(error.status), error.kind)

    def slow(self) -> None:
        """Note a stream that was cut since its client did not read it."""
        self._tally.count(SLOW_CLIENTS)

    def lagged(self, seconds: float) -> None:
        """Note how late the event loop was."""
        self._tally.observe(LOOP_LAG, seconds)

    def limited(self, standing: Standing) -> None:
        """Note that a limit refused a request, or would have, were it not in shadow."""
        mode = "shadow" if standing.shadow else "enforced"
        self._tally.count(LIMITED, standing.level, standing.name, mode)

    async def flush(self) -> None:
        """Say that this gateway lives, and add what it counted."""
        async with self._flushing:  # a scrape flushes too: whoever came second would let go of what came in between
            if not self._has_left:
                about = json.dumps(self._about())
                await self._log.run(scripts.BEAT, (keys.GATEWAYS,), (self._gateway, about))
            if call := self._tally.call(self._counter):
                await self._log.run(*call)
                self._tally.added()
        if time.monotonic() >= self._minutes_due:
            self._minutes_due = time.monotonic() + MINUTES_S
            await self.flush_minutes()

    async def flush_minutes(self) -> None:
        """Add what was counted by the minute."""
        async with self._flushing:
            while call := self._minutes.call(self._counter):
                self._minutes.added(await self._log.run(*call))

    async def leave(self) -> None:
        """Add what is left, and take this gateway off the list."""
        await self.flush()
        await self.flush_minutes()
        async with self._flushing:
            self._has_left = True  # no heartbeat comes after this, which `drain --wait` goes by
            await self._redis.hdel(keys.GATEWAYS, self._gateway)


def output_tokens(frames: bytes) -> int:
    """Return the tokens of an answer by its last events; 0 where they do not tell."""
    found = _OUTPUT_TOKENS.findall(frames)
    return int(found[-1]) if found else 0
