"""What the endpoints of one gateway process share."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Coroutine
from typing import Any

from redis.asyncio import Redis

from inference.protocol.settings import Settings
from streaming.announcements import Announcements
from streaming.auth import Authenticator
from streaming.catalog import Catalog
from streaming.drain import Drain
from streaming.eventlog import EventLog
from streaming.idempotency import IdempotencyKeys
from streaming.readers import Readers
from streaming.tasks import end

logger = logging.getLogger(__name__)


class Gateway:
    """Connections, caches and background tasks of this process. Starts itself on the loop of the first request."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.id = f"{socket.gethostname()}-{os.getpid()}"
        self.authenticator = Authenticator()
        self._redis: Redis = Redis.from_url(settings.redis, socket_timeout=10, socket_connect_timeout=5)
        self.log = EventLog(self._redis, settings)
        self.announcements = Announcements(Redis.from_url(settings.redis, protocol=2, socket_connect_timeout=5))
        self.readers = Readers(self.log, buffer_events=settings.stream_buffer_events)
        self.idempotency_keys = IdempotencyKeys(self._redis)
        self.catalog = Catalog(self._redis, settings)
        self.drain = Drain(settings.drain_s)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._starting: asyncio.Task[None] | None = None

    async def started(self) -> Gateway:
        """Return this gateway once it runs."""
        if self._starting is None or (self._starting.done() and self._starting.exception()):
            self._starting = asyncio.create_task(self._start())
        await asyncio.shield(self._starting)
        return self

    def spawn(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Run something that outlives the request it belongs to; a failure is logged."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    async def stop(self) -> None:
        """Drain, then close."""
        await self.drain.run()
        await self.close()

    async def close(self) -> None:
        """Let short work finish, then end background tasks and connections."""
        lasting = {task for task in self._tasks if task.get_name() in ("catalog", "readers")}
        if short := self._tasks - lasting:
            await asyncio.wait(short, timeout=2)
        await end(set(self._tasks))
        await self.announcements.close()
        await self._redis.aclose()

    async def _start(self) -> None:
        await self.catalog.refresh()
        self.announcements.start()
        self.spawn(self.catalog.run(), "catalog")
        self.spawn(self.readers.run(), "readers")

    def _finished(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            logger.error("%s failed", task.get_name(), exc_info=error)
