"""Putting back what Redis lost: it may come back from an outage without its last seconds.

What a worker wrote in that time it still has. Events go back under the ids that they had, so that nobody who saw them
sees them again, a claim under its own pen, and what ended is ended and settled again, under the id of its message.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Iterable
from typing import Any

import redis

from inference.broker import NO_LOG, OVERTAKEN, Broker
from inference.generation import Generation
from inference.protocol.opening import first_frame, opening
from inference.protocol.settings import Settings
from inference.tail import KEPT_S, Batch

logger = logging.getLogger(__name__)

PATIENCE_S = 10.0  # for so long readers wait for Redis; then they are told an error
_MOST = 1000  # messages that are remembered after their end
_BEFORE_ALL = 1, b""  # where a log is written again that is gone but for its first event


class Recovery:
    """One worker's memory of its last seconds."""

    def __init__(self, broker: Broker, settings: Settings) -> None:
        self._broker, self._settings = broker, settings
        self._ended: deque[tuple[float, Generation]] = deque(maxlen=_MOST)
        self._outages = broker.outages

    @property
    def is_due(self) -> bool:
        """Whether Redis has been away since `recall`."""
        return self._broker.outages != self._outages

    def remember(self, generation: Generation) -> None:
        """Keep a message that was settled, until `forget_old`."""
        self._ended.append((time.monotonic(), generation))

    def forget_old(self) -> None:
        """Let go of what Redis cannot lose any more. Not for `recall`: what was new when it went away is old by now."""
        now = time.monotonic()
        while self._ended and now - self._ended[0][0] > KEPT_S:
            self._ended.popleft()

    def given_up(self, running: Iterable[Generation]) -> list[Generation]:
        """Return the messages whose readers have been told an error meanwhile. What nobody ever read can go on."""
        away_s, self._broker.away_s = self._broker.away_s, 0.0
        candidates = [generation for generation in running if generation.outcome is None]
        if away_s < PATIENCE_S or not candidates:
            return []
        read = self._broker.were_read([generation.id for generation in candidates])
        return [generation for generation, was_read in zip(candidates, read, strict=True) if was_read]

    def recall(self) -> list[Generation]:
        """Return the messages that ended in the last seconds before an outage, to be ended again."""
        self._outages = self._broker.outages
        recalled = [generation for _, generation in self._ended]
        self._ended.clear()
        for generation in recalled:
            generation.ask_now()
        return recalled

    def mended(self, generation: Generation, batch: Batch, reply: Any) -> Batch | None:
        """Return all that a log lacks, a batch that it did not take included; None when we do not have all of that."""
        last_id, frame = _BEFORE_ALL if reply == NO_LOG else reply
        return generation.since(last_id, frame, batch)

    def write(self, generation: Generation, mended: Batch, reply: Any) -> Any:
        """Write what a log lacked, and the log itself where it is gone; return the reply of the append."""
        if reply == NO_LOG:
            logger.warning("%s: redis lost its log: it is written again", generation.id)
            request = generation.request
            call = opening(request, self._settings, first_frame(request), pen=generation.pen)
            (opened,) = self._broker.exchange([call])
            if isinstance(opened, redis.ResponseError):
                return opened
            self._broker.note_log(generation.id)
        else:
            logger.warning("%s: redis lost its events after %d: they are written again", generation.id, reply[0])
        calls = [self._broker.take_again(generation), self._broker.append(generation, mended)]
        taken, written = self._broker.exchange(calls)
        return taken if isinstance(taken, redis.ResponseError) else written

    def give_back(self, generation: Generation, reply: Any) -> bool:
        """Let a message be taken up again from where its log stands; False when there is no log."""
        if reply == NO_LOG:
            return False
        logger.warning("%s: redis lost more of its log than we have: it goes on from event %d", generation.id, reply[0])
        if self.reclaim(generation):
            self._broker.exchange([self._broker.release(generation.id, generation.pen)])
        return True

    def reclaim(self, generation: Generation) -> bool:
        """Make sure of a claim that Redis may have forgotten; False when a later one is there.

        Only who may write to the log may ask for this: a message that was settled by another has been fenced off.
        """
        call = self._broker.reclaim(generation, generation.request.encode())
        return bool(self._broker.ask(call) != OVERTAKEN)
