"""What the endpoints of one gateway process share."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Coroutine
from typing import Any

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff
from redis.exceptions import RedisError

from inference.protocol.settings import Settings
from streaming.announcements import Announcements
from streaming.auth import Authenticator
from streaming.catalog import Catalog
from streaming.cors import Cors
from streaming.drain import Drain
from streaming.eventlog import EventLog
from streaming.idempotency import IdempotencyKeys
from streaming.janitor import LOOK_S as JANITOR_S
from streaming.janitor import Janitor
from streaming.readers import LOOK_S, Readers
from streaming.reaper import LOOK_S as REAP_S
from streaming.reaper import Reaper
from streaming.tasks import end, forever

logger = logging.getLogger(__name__)

MAX_CONNECTIONS = 32  # to Redis; commands are short
START_S = 3.0  # what the first request waits at most for a look at the workers


class Gateway:
    """Connections, caches and background tasks of this process. Starts itself on the loop of the first request."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.id = f"{socket.gethostname()}-{os.getpid()}"
        self.authenticator = Authenticator()
        # A burst waits for a connection; it does not fail.
        pool = BlockingConnectionPool.from_url(
            settings.redis,
            max_connections=MAX_CONNECTIONS,
            timeout=10,
            socket_timeout=10,
            socket_connect_timeout=5,
            retry=Retry(ExponentialBackoff(cap=1.0, base=0.05), retries=12),  # about 9 s: Redis may be restarting
        )
        self._redis: Redis = Redis(connection_pool=pool)
        self.log = EventLog(self._redis, settings)
        self.announcements = Announcements(Redis.from_url(settings.redis, protocol=2, socket_connect_timeout=5))
        self.readers = Readers(self.log, buffer_events=settings.stream_buffer_events)
        self.janitor = Janitor(self._redis, max_bytes=settings.event_log_max_mb * 1_000_000)
        self.reaper = Reaper(self.log, settings, gateway=self.id)
        self.idempotency_keys = IdempotencyKeys(self._redis)
        self.catalog = Catalog(self._redis, settings)
        self.cors = Cors(settings.cors_origins)
        self.drain = Drain(settings.drain_s)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._starting: asyncio.Task[None] | None = None

    async def started(self) -> Gateway:
        """Return this gateway once it runs."""
        if self._starting is None:
            self._starting = asyncio.create_task(self._start())
        await asyncio.shield(self._starting)
        return self

    def spawn(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Run something that outlives the request it belongs to; a failure is logged."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    async def close(self) -> None:
        """Let short work finish, then end background tasks and connections."""
        lasting = {task for task in self._tasks if task.get_name() in ("catalog", "readers", "reaper", "janitor")}
        if short := self._tasks - lasting:
            await asyncio.wait(short, timeout=2)
        await end(set(self._tasks))
        await self.announcements.close()
        await self._redis.aclose()
        await self._redis.connection_pool.disconnect()

    async def _start(self) -> None:
        self.announcements.start()
        self.spawn(forever(self.catalog.refresh, every_s=1.0, name="catalog"), "catalog")
        self.spawn(forever(self.janitor.look, every_s=JANITOR_S, name="janitor"), "janitor")
        self.spawn(forever(self._reap, every_s=REAP_S, name="reaper"), "reaper")
        self.spawn(forever(self.readers.look, every_s=LOOK_S, name="readers"), "readers")
        try:
            async with asyncio.timeout(START_S):
                await self.catalog.refresh()
                await self.announcements.wait_up()
        except (TimeoutError, RedisError, OSError):
            logger.warning("redis does not answer yet; going on without")

    async def _reap(self) -> None:
        await self.reaper.look(await self.log.models())

    def _finished(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            logger.error("%s failed", task.get_name(), exc_info=error)
