"""An operator's wish that a worker claims no more, and ends once what it runs has ended."""

from __future__ import annotations

import logging
import time

from inference.broker import Broker

logger = logging.getLogger(__name__)


class Drain:
    """Whether one worker was asked to drain, and how long it has for that."""

    def __init__(self, broker: Broker, *, started_at: float, within_s: float) -> None:
        """`started_at` is the worker's own beginning, by which it knows that a note is for it."""
        self.started_at = started_at
        self._broker, self._within_s = broker, within_s
        self._until: float | None = None

    @property
    def asked(self) -> bool:
        """Whether somebody asked for it."""
        return self._until is not None

    def look(self, num_running: int) -> bool:
        """Look for a note of somebody who asks; say whether there is a new one."""
        if self.asked or not self._broker.is_to_drain(self._broker.worker, self.started_at):
            return False
        logger.info("asked to drain: %d messages have %g s to end", num_running, self._within_s)
        self._until = time.monotonic() + self._within_s
        return True

    def is_over(self, num_running: int) -> bool:
        """Say whether it is time to end."""
        return self._until is not None and (not num_running or time.monotonic() > self._until)
