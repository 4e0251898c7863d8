"""Runs the requests of all batches: a few at once, organisations and their batches in turns.

What runs is known by the log of its message, whose id is fixed since the batch was created. So whoever dies, a runner
among them, what was begun is found again, and what was not is begun: once.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING

from django.utils import timezone
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff

from batches.models import Kind
from inference.protocol.quotas import long_lease_ms, renewing
from inference.protocol.settings import SettingError, Settings
from inference.protocol.tracing import open_spans
from streaming.batches.beginning import Beginning
from streaming.batches.collecting import Collecting
from streaming.batches.counting import Counting
from streaming.batches.database import Database, open_batches
from streaming.batches.ends import Ends
from streaming.batches.lease import Lease
from streaming.batches.results import without_message
from streaming.batches.room import Room
from streaming.batches.submission import Submission
from streaming.batches.telling import Telling
from streaming.batches.work import BatchRun, Running
from streaming.catalog import Catalog, Templates
from streaming.eventlog import EventLog
from streaming.reaper import Reaper

if TYPE_CHECKING:
    from inference.protocol.spans import Spans

logger = logging.getLogger(__name__)

POLL_S = 0.1
REFRESH_S = 1.0
RESERVE_S = 20.0  # how often reservations are renewed
CONNECTIONS = 8
TEMPLATES: Templates = {}  # of all runners that this process has one after the other


async def run(settings: Settings, *, stopping: Callable[[], bool], for_s: float) -> None:
    """Run what there is for so many seconds at most, unless another process does."""
    pool = BlockingConnectionPool.from_url(
        settings.redis,
        max_connections=CONNECTIONS,
        timeout=10,
        socket_timeout=10,
        socket_connect_timeout=5,
        retry=Retry(ExponentialBackoff(cap=1.0, base=0.05), retries=5),
    )
    until = time.monotonic() + for_s
    async with Redis(connection_pool=pool) as client:
        try:
            lease = Lease(client)
            if await lease.take():
                spans = _spans(settings)
                runner = Runner(client, settings, lease, spans)
                try:
                    await runner.work(lambda: stopping() or time.monotonic() > until)
                finally:
                    runner.close()
                    await lease.release()
                    if spans is not None:
                        await asyncio.to_thread(spans.close)
        finally:
            await pool.disconnect()


def _spans(settings: Settings) -> Spans | None:
    """Return where spans are told. What is in the way of that is none of the batches."""
    try:
        return open_spans(settings, "sluice-batches")
    except SettingError as error:
        logger.error("no traces of batches: %s", error)
        return None


class Runner:
    """What runs, and what comes next."""

    def __init__(self, client: Redis, settings: Settings, lease: Lease, spans: Spans | None = None) -> None:
        self._settings, self._lease = settings, lease
        self._name = f"batches-{socket.gethostname()}-{os.getpid()}"
        self._batches: dict[str, BatchRun] = {}
        self._running: dict[str, Running] = {}
        self._database = database = Database()
        self._log = log = EventLog(client, settings)
        self._counting = Counting(log, runner=self._name)
        self._reaper = Reaper(log, settings, gateway=self._name, note=self._counting.settled)
        catalog = Catalog(client, settings, templates=TEMPLATES)
        telling = Telling(log, spans, runner=self._name)
        self._room = Room(client, catalog, settings, self._running)
        self._ends = Ends(log, database, self._running, log_ttl_s=settings.event_log_ttl_s)
        self._collecting = Collecting(client, log, database, self._running, self._ends, telling)
        submission = Submission(log, catalog, settings, self._room, telling)
        self._beginning = Beginning(
            client, database, submission, self._room, self._running, self._ends, telling, self._counting
        )
        self._refresh_due = self._reserve_due = 0.0

    def close(self) -> None:
        self._database.close()

    async def work(self, is_over: Callable[[], bool]) -> None:
        """Work until there is nothing to do, or it is over."""
        while not is_over():
            if time.monotonic() >= self._refresh_due:
                self._refresh_due = time.monotonic() + REFRESH_S
                if not await self._lease.renew():
                    return
                await self._refresh()
            if not self._batches:
                return
            await self._collecting.collect()
            goes_on = await self._collecting.sweep(self._batches.values())
            goes_on |= await self._beginning.fill(self._batches.values())
            await self._ends.store()
            await self._counting.flush()  # not before: a refusal that is not stored comes again
            if not goes_on:
                await asyncio.sleep(POLL_S)

    async def _refresh(self) -> None:
        """Learn of new batches, of those that are canceled or have expired, and of how the platform is."""
        found = {batch.id: self._known(batch) for batch in await self._database.ask(open_batches)}
        self._batches = found
        for one in list(self._running.values()):
            if one.batch.id not in found:
                del self._running[one.id]
        if not found:
            return
        await self._room.look()
        for one in list(self._running.values()):
            if one.batch.stop and one.batch.stop.kind != "errored":
                await self._cancel(one)
        if time.monotonic() >= self._reserve_due:
            self._reserve_due = time.monotonic() + RESERVE_S
            await self._reserve()

    def _known(self, found: BatchRun) -> BatchRun:
        batch = self._batches.get(found.id, found)
        kind: Kind | None = "canceled" if found.canceled else "expired" if found.expires_at <= timezone.now() else None
        if kind and (batch.stop is None or batch.stop.kind == "errored"):
            batch.end_with(without_message(kind))
        return batch

    async def _reserve(self) -> None:
        """Keep what quotas hold for messages that wait."""
        names: defaultdict[str, list[str]] = defaultdict(list)
        for one in self._running.values():
            names[one.batch.organization].append(one.id)
        for organization, message_ids in names.items():
            await self._log.run(*renewing(organization, message_ids, long_lease_ms(self._settings)))

    async def _cancel(self, one: Running) -> None:
        """Have a message end: by its worker, or here where none is at it."""
        await self._log.cancel(one.id, "cancelled")
        await self._reaper.end_idle(one.id, one.model)
        await self._counting.flush()
