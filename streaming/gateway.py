"""What the endpoints of one gateway process share."""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Callable, Coroutine
from typing import Any

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff
from redis.exceptions import RedisError

from accounts.uses import GATHER_S
from inference.protocol import drains, keys
from inference.protocol.heartbeats import about_process, process_id
from inference.protocol.settings import Settings
from inference.protocol.tracing import open_spans
from streaming import loop_lag
from streaming.announcements import Announcements
from streaming.auth import Authenticator
from streaming.catalog import Catalog
from streaming.changes import LOOK_S as CHANGES_S
from streaming.changes import Changes
from streaming.copies import Copies
from streaming.cors import Cors
from streaming.drain import Drain
from streaming.eventlog import EventLog
from streaming.idempotency import IdempotencyKeys
from streaming.janitor import LOOK_S as JANITOR_S
from streaming.janitor import Janitor
from streaming.lost import LOOK_S as LOST_S
from streaming.lost import LostMessages
from streaming.measures import FLUSH_S, Measures
from streaming.readers import LOOK_S, Readers
from streaming.reaper import LOOK_S as REAP_S
from streaming.reaper import Reaper
from streaming.scrape import Snapshot, look
from streaming.spool_watch import LOOK_S as SPOOL_S
from streaming.spool_watch import SpoolWatch
from streaming.tasks import end, forever
from streaming.usages import Usages

logger = logging.getLogger(__name__)

MAX_CONNECTIONS = 32  # to Redis; commands are short
# Tasks that end with the process.
LASTING = (
    "changes",
    "uses",
    "catalog",
    "readers",
    "reaper",
    "lost",
    "janitor",
    "measures",
    "spool",
    "drains",
    "loop lag",
)
CLOSE_S = 2.0
DRAINS_S = 1.0
START_S = 3.0  # what the first request waits at most for a look at the workers


class Gateway:
    """Connections, caches and background tasks of this process. Starts itself on the loop of the first request."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.id = process_id()
        self.asked_to_drain = False  # by an operator
        self.stop: Callable[[], None] = lambda: signal.raise_signal(signal.SIGTERM)
        self.num_connections: Callable[[], int] | None = None  # of clients; the server knows
        self._started_at = time.time()
        # A burst waits for a connection; it does not fail.
        pool = BlockingConnectionPool.from_url(
            settings.redis,
            max_connections=MAX_CONNECTIONS,
            timeout=10,
            socket_timeout=10,
            socket_connect_timeout=5,
            retry=Retry(ExponentialBackoff(cap=1.0, base=0.05), retries=13),  # 10.5 s: Redis may be restarting
        )
        self._redis: Redis = Redis(connection_pool=pool)
        self.changes = Changes(self._redis)
        self.authenticator = Authenticator(Copies(self._redis, self.changes))
        self.log = EventLog(self._redis, settings, gateway=self.id)
        self.usages = Usages(self.log)
        self.announcements = Announcements(Redis.from_url(settings.redis, protocol=2, socket_connect_timeout=5))
        self.readers = Readers(self.log, buffer_events=settings.stream_buffer_events)
        self.janitor = Janitor(self._redis, max_bytes=settings.event_log_max_mb * 1_000_000)
        self.spool = SpoolWatch(self._redis, settings)
        self.measures = Measures(self._redis, self.log, gateway=self.id, about=self.about)
        note = self.measures.settled
        self.reaper = Reaper(self.log, settings, gateway=self.id, note=note)
        self.lost = LostMessages(self._redis, self.log, self.reaper, settings, gateway=self.id, note=note)
        self.idempotency_keys = IdempotencyKeys(self._redis)
        self.catalog = Catalog(self._redis, settings)
        self.cors = Cors(settings.cors_origins)
        self.drain = Drain(settings.drain_s)
        self.spans = open_spans(settings, "sluice-gateway")
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

    async def look(self) -> Snapshot:
        """Return what all processes of the platform tell of themselves."""
        await self.measures.flush()
        return await look(self._redis)

    def about(self) -> dict[str, Any]:
        """Say what this gateway is and how loaded: the content of its heartbeat."""
        connections = {} if self.num_connections is None else {"open_connections": self.num_connections()}
        load = {"active_streams": self.readers.count, **connections, "draining": self.drain.begun}
        return about_process(self._started_at) | load | self.readers.about()

    async def close(self, within_s: float = CLOSE_S) -> None:
        """Let short work finish, for so many seconds at most, then end background tasks and connections."""
        if self._starting is not None:
            self.spawn(self.measures.leave(), "leave")
            self.spawn(self.changes.tell_uses(), "last uses")
        lasting = {task for task in self._tasks if task.get_name() in LASTING}
        if short := self._tasks - lasting:
            await asyncio.wait(short, timeout=within_s)
        await end(set(self._tasks))
        if self.spans is not None:
            await asyncio.to_thread(self.spans.close)
        await self.announcements.close()
        await self._redis.aclose()
        await self._redis.connection_pool.disconnect()

    async def _start(self) -> None:
        self.announcements.start()
        self.spawn(forever(self.changes.look, every_s=CHANGES_S, name="changes"), "changes")
        self.spawn(forever(self.changes.tell_uses, every_s=GATHER_S, name="uses"), "uses")
        self.spawn(forever(self.catalog.refresh, every_s=1.0, name="catalog"), "catalog")
        self.spawn(forever(self.janitor.look, every_s=JANITOR_S, name="janitor"), "janitor")
        self.spawn(forever(self.spool.look, every_s=SPOOL_S, name="spool"), "spool")
        self.spawn(forever(self._reap, every_s=REAP_S, name="reaper"), "reaper")
        self.spawn(forever(self.lost.look, every_s=LOST_S, name="lost"), "lost")
        self.spawn(forever(self.readers.look, every_s=LOOK_S, name="readers"), "readers")
        self.spawn(forever(self.measures.flush, every_s=FLUSH_S, name="measures"), "measures")
        self.spawn(forever(self._look_for_drain, every_s=DRAINS_S, name="drains"), "drains")
        self.spawn(loop_lag.watch(self.measures.lagged), "loop lag")
        try:
            async with asyncio.timeout(START_S):
                await self.catalog.refresh()
                await self.announcements.wait_up()
        except (TimeoutError, RedisError, OSError):
            logger.warning("redis does not answer yet; going on without")
        except Exception:  # every request waits for this task: a failure would be all their failures, for good
            logger.exception("the first look at the workers failed; the next one comes soon")

    async def _look_for_drain(self) -> None:
        """End this process, as SIGTERM does, when an operator asks for it."""
        note = drains.note(self._started_at)
        if not self.drain.begun and await self._redis.get(keys.drain(self.id)) == note:
            logger.info("asked to drain: open streams have %g s", self.settings.drain_s)
            self.asked_to_drain = True
            self.stop()

    async def _reap(self) -> None:
        await self.reaper.look(await self.log.models())

    def _finished(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            logger.error("%s failed", task.get_name(), exc_info=error)
