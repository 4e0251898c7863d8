"""A worker's heartbeat: what it is, how loaded, and what it has counted since the last."""

from __future__ import annotations

import logging
import sys
from dataclasses import asdict
from typing import Any

import redis

from inference.broker import Broker
from inference.draining import Drain
from inference.engines.base import Engine
from inference.meter import Meter
from inference.protocol.closeups import held_field
from inference.protocol.heartbeats import about_process, version_of
from inference.protocol.settings import Settings
from inference.running import Running

logger = logging.getLogger(__name__)


class Heartbeat:
    """Tells of one worker."""

    def __init__(
        self, broker: Broker, engine: Engine, running: Running, meter: Meter, drain: Drain, settings: Settings
    ) -> None:
        self._broker, self._engine, self._running = broker, engine, running
        self._meter, self._drain, self._settings = meter, drain, settings

    def beat(self) -> None:
        """Tell what this worker is."""
        self._broker.beat(self._broker.worker, self.about())

    def add_counts(self) -> None:
        """Tell what it has counted since it last told."""
        self._broker.add_counts(self._broker.worker, self._meter.tally)
        self._broker.add_minutes(self._broker.worker, self._meter.minutes)

    def leave(self) -> None:
        """Tell the last, and take the worker off the list."""
        try:
            self.add_counts()
            self._broker.leave(self._broker.worker)
        except redis.RedisError as error:
            logger.warning("redis is away (%s): the heartbeat will age", error)

    def about(self) -> dict[str, Any]:
        """Say what this worker is and how loaded."""
        torch = {"torch": version_of("torch")} if "torch" in sys.modules else {}  # the simulated engine does without
        return {
            **about_process(self._drain.started_at),
            **torch,
            "draining": self._drain.asked,
            "model": self._settings.model,
            "engine": self._settings.engine,
            "context_length": self._engine.context_length,
            "max_batch": self._engine.max_batch,
            **asdict(self._engine.stats()),
            **self._meter.about(),
            **held_field((g.id, g.num_waiting) for g in self._running.values()),
        }
