"""How many requests of batches may run: a share of what workers can, and no new ones while the logs are full."""

from __future__ import annotations

from collections.abc import Mapping

from redis.asyncio import Redis

from common.errors import Overloaded
from inference.protocol import keys
from inference.protocol.settings import Settings
from streaming.batches.work import Running
from streaming.catalog import FRESH_S, Catalog
from streaming.spool_watch import SpoolWatch


class Room:
    """The room beside what is running."""

    def __init__(self, client: Redis, catalog: Catalog, settings: Settings, running: Mapping[str, Running]) -> None:
        self._redis, self._catalog, self._settings, self._running = client, catalog, settings, running
        self._spool = SpoolWatch(client, settings)
        self.for_logs = False  # as `look` has found

    async def look(self) -> None:
        """See how the platform is."""
        await self._catalog.refresh()
        self.for_logs = await self._is_room_for_logs()

    @property
    def for_more(self) -> bool:
        """Whether one more may run."""
        models = {about["model"] for about in self._catalog.workers.values()}
        return len(self._running) < min(self._settings.batch_concurrency, sum(map(self._at, models)))

    def has(self, model: str) -> bool:
        """Say whether one more may run at a model."""
        return sum(one.model == model for one in self._running.values()) < self._at(model)

    def _at(self, model: str) -> int:
        workers = [about for about in self._catalog.workers.values() if about["model"] == model]
        newest = max((about["seen_at"] for about in workers), default=0.0)
        at_once = sum(about.get("max_batch", 1) for about in workers if newest - about["seen_at"] < FRESH_S)
        return max(1, int(at_once * self._settings.batch_share))

    async def _is_room_for_logs(self) -> bool:
        await self._spool.look()
        try:
            self._spool.check()
        except Overloaded:
            return False
        return not await self._redis.get(keys.LOGS_FULL)
