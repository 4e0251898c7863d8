"""Writing the logs of running messages, and heeding what they say: cancelled, taken over, forgotten, full."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import partial
from typing import Any

import redis

from inference.broker import FENCED, Asked, Broker
from inference.generation import Generation
from inference.intake import cancel_reason
from inference.protocol.full import is_full
from inference.recovery import Recovery
from inference.running import Running
from inference.tail import Batch

logger = logging.getLogger(__name__)

FULL_PATIENCE_S = 10.0  # a full Redis has as long as one that is away: logs expire, and then there is room again


class Writer:
    """Writes what one worker's messages release."""

    def __init__(self, broker: Broker, running: Running, recovery: Recovery) -> None:
        self._broker, self._running, self._recovery = broker, running, recovery

    def appends(self) -> Iterator[Asked]:
        """Write what waits; ask now and then for messages that release nothing, too."""
        for generation in self._running.values():
            if generation.is_due:
                batch = generation.take()
                yield self._broker.append(generation, batch), partial(self._heed, generation, batch)

    def hold(self, generation: Generation) -> None:
        """Keep a message whose claim has gone if it is ours still: then Redis has forgotten the claim."""
        batch = generation.take()
        (reply,) = self._broker.exchange([self._broker.append(generation, batch)])
        self._heed(generation, batch, reply)
        if self._running.has(generation) and not self._recovery.reclaim(generation):
            self._running.drop(generation)

    def _heed(self, generation: Generation, batch: Batch, reply: Any) -> None:
        """Act on what the log says of a message: another attempt has it, somebody cancelled it, it takes no more."""
        if isinstance(reply, redis.ResponseError):
            self._heed_refusal(generation, batch, reply)
        elif reply == FENCED:
            logger.warning("%s: attempt %d was fenced off", generation.id, generation.attempt)
            self._running.drop(generation)
        elif not isinstance(reply, bytes):
            self._mend(generation, batch, reply)
        else:
            generation.written(batch)
            if reply and generation.outcome is None:
                self._running.cancel(generation, cancel_reason(reply.decode()))

    def _heed_refusal(self, generation: Generation, batch: Batch, error: redis.ResponseError) -> None:
        if generation.outcome is not None:  # and it is settled: there is no more to be done
            logger.error("%s: its end cannot be written (%s)", generation.id, error)
            return
        refused_s = generation.put_back(batch)
        if not is_full(error) or refused_s > FULL_PATIENCE_S:
            self._running.fail(generation, f"its events cannot be written ({error})")

    def _mend(self, generation: Generation, batch: Batch, reply: Any) -> None:
        """Write again what the log has lost. Where we have not kept enough of it, what the log has is gone on from."""
        mended = self._recovery.mended(generation, batch, reply)
        if mended is not None:
            self._heed(generation, mended, self._recovery.write(generation, mended, reply))
        elif generation.outcome is not None:
            logger.error("%s: its log is gone, or lacks too much: its end cannot be written", generation.id)
        elif self._recovery.give_back(generation, reply):
            self._running.drop(generation)
        else:
            self._running.fail(generation, "its log is gone")
