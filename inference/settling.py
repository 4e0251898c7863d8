"""What is told of a message beside its log: what checks found, and its one account when it has ended."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import redis

from inference.broker import OVERTAKEN, SETTLED, Asked, Broker, Call
from inference.generation import Generation
from inference.protocol.reports import Settlement, common_of
from inference.protocol.requests import GenerationRequest
from inference.recovery import Recovery
from inference.running import Running

logger = logging.getLogger(__name__)

Note = Callable[[GenerationRequest, Settlement], None]


class Settler:
    """Settles what one worker has ended."""

    def __init__(self, broker: Broker, running: Running, recovery: Recovery, *, note: Note) -> None:
        """`note` is called once for each message that is settled."""
        self._broker, self._running, self._recovery, self._note = broker, running, recovery, note

    def reports(self) -> Iterator[Asked]:
        """Tell of what checks found."""
        for generation in self._running.values():
            if untold := generation.untold:
                yield self._broker.report(untold), partial(self._heed_report, generation, len(untold))

    def settlements(self) -> Iterator[Asked]:
        """Account for what has ended, and settle it."""
        for generation in self._running.values():
            if generation.outcome is not None:
                settlement = self._settlement(generation)
                yield self._broker.account(settlement, generation.pen), heed_account
                call = self._broker.settle(settlement, generation.pen)
                yield call, partial(self._heed_settlement, generation, call)

    def _settlement(self, generation: Generation) -> Settlement:
        return generation.settlement(common_of(generation.request), self._broker.worker)

    def _heed_report(self, generation: Generation, count: int, reply: Any) -> None:
        if isinstance(reply, redis.ResponseError):
            logger.error("%s: what safety checks found cannot be told (%s)", generation.id, reply)
        else:
            generation.told(count)

    def _heed_settlement(self, generation: Generation, settling: Call, reply: Any) -> None:
        if not self._running.has(generation):
            return  # fenced off: this account is not the one
        if reply == OVERTAKEN and self._recovery.reclaim(generation):
            (reply,) = self._broker.exchange([settling])
        if isinstance(reply, redis.ResponseError):
            logger.error("%s: cannot be settled (%s): who claims it next will", generation.id, reply)
        del self._running[generation.id]
        if reply == SETTLED and not generation.is_counted:  # it may be settled again, after an outage
            generation.is_counted = True
            self._note(generation.request, self._settlement(generation))
        self._recovery.remember(generation)


def heed_account(reply: Any) -> None:
    """Complain of what the books of a quota could not take."""
    if isinstance(reply, redis.ResponseError):
        logger.error("quotas cannot be kept (%s): the reconciliation will set them right", reply)
