"""What this gateway measures, on its way to Redis: never in the path of a token, but when a stream has ended."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from redis.asyncio import Redis

from common.errors import ApiError
from inference.protocol import keys, scripts
from inference.protocol.metrics import ERRORS, LIMITED, STAGE, TBT, TOTAL, TPOT, TTFT, Tally
from inference.protocol.reports import Delivery
from quotas.standings import Standing
from streaming.eventlog import EventLog
from streaming.timing import Stopwatch

FLUSH_S = 1.0

_OUTPUT_TOKENS = re.compile(rb'"output_tokens":(\d+)')


class Measures:
    """The counts of one gateway."""

    def __init__(self, client: Redis, log: EventLog, *, gateway: str, active: Callable[[], int]) -> None:
        """`active` tells how many streams are open."""
        self._redis, self._log, self._gateway, self._active = client, log, gateway, active
        self._tally = Tally()

    def delivered(self, delivery: Delivery, watch: Stopwatch, last_frames: bytes) -> None:
        """Note what one reader felt; `last_frames` are the events that it was sent last."""
        if delivery.ttft_ms is not None:
            self._tally.observe(TTFT, delivery.ttft_ms / 1000)
        if delivery.tbt_p99_ms is not None:
            self._tally.observe_all(TBT, watch.gaps)
        if delivery.stream_ms is not None and (num_tokens := output_tokens(last_frames)) > 1:
            self._tally.observe(TPOT, delivery.stream_ms / 1000 / (num_tokens - 1))
        self._tally.observe(TOTAL, delivery.total_ms / 1000)
        for name, spent_ms in delivery.stages.items():
            self._tally.observe(STAGE, spent_ms / 1000, name.removesuffix("_ms"))

    def refused(self, error: ApiError) -> None:
        """Note a request that was answered with an error."""
        self._tally.count(ERRORS, str(error.status), error.kind)

    def limited(self, standing: Standing) -> None:
        """Note that a limit refused a request, or would have, were it not in shadow."""
        mode = "shadow" if standing.shadow else "enforced"
        self._tally.count(LIMITED, standing.level, standing.name, mode)

    async def flush(self) -> None:
        """Say that this gateway lives, and add what it counted."""
        about = json.dumps({"active_streams": self._active()})
        await self._log.run(scripts.BEAT, (keys.GATEWAYS,), (self._gateway, about))
        if call := self._tally.call(self._gateway):
            await self._log.run(*call)
            self._tally.added()

    async def leave(self) -> None:
        """Add what is left, and take this gateway off the list."""
        await self.flush()
        await self._redis.hdel(keys.GATEWAYS, self._gateway)


def output_tokens(frames: bytes) -> int:
    """Return the tokens of an answer by its last events; 0 where they do not tell."""
    found = _OUTPUT_TOKENS.findall(frames)
    return int(found[-1]) if found else 0
