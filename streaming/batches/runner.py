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

from django.db import Error as DatabaseError
from django.utils import timezone
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff
from redis.exceptions import RedisError

from batches.ending import Ended, store_results
from batches.models import Kind
from common.errors import ApiError, AuthenticationFailed, Overloaded, PermissionDenied
from inference.protocol import keys, scripts
from inference.protocol.minutes import MinuteTally
from inference.protocol.outcomes import CANCEL_REASONS
from inference.protocol.quotas import long_lease_ms, renewing
from inference.protocol.reports import Settlement
from inference.protocol.settings import Settings
from streaming.batches.database import Callers, Database, ids_after, items_after, open_batches, recorded
from streaming.batches.lease import Lease
from streaming.batches.results import LOST, ended, errored, without_message
from streaming.batches.states import states_of
from streaming.batches.submission import Hold, Submission
from streaming.batches.work import BatchRun, Item, Running, Stop
from streaming.catalog import FRESH_S, Catalog, Templates
from streaming.eventlog import EventLog
from streaming.reaper import Reaper
from streaming.spool_watch import SpoolWatch

logger = logging.getLogger(__name__)

POLL_S = 0.1
REFRESH_S = 1.0
RESERVE_S = 20.0  # how often reservations are renewed
ITEMS, IDS = 16, 500  # of a batch, that are taken from the database at once
AT_ONCE = 256  # requests that are begun, or refused, before ended ones are looked for
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
                runner = Runner(client, settings, lease)
                try:
                    await runner.work(lambda: stopping() or time.monotonic() > until)
                finally:
                    runner.close()
                    await lease.release()
        finally:
            await pool.disconnect()


class Runner:
    """What runs, and what comes next."""

    def __init__(self, client: Redis, settings: Settings, lease: Lease) -> None:
        self._redis, self._settings, self._lease = client, settings, lease
        self._database = Database()
        self._callers = Callers(self._database)
        self._log = EventLog(client, settings)
        self._catalog = Catalog(client, settings, templates=TEMPLATES)
        self._spool = SpoolWatch(client, settings)
        self._name = f"batches-{socket.gethostname()}-{os.getpid()}"
        self._minutes = MinuteTally()
        self._reaper = Reaper(self._log, settings, gateway=self._name, note=self._note)
        self._submission = Submission(self._log, self._catalog, settings, has_room=self._has_room)
        self._batches: dict[str, BatchRun] = {}
        self._running: dict[str, Running] = {}
        self._ended: defaultdict[str, list[Ended]] = defaultdict(list)
        self._held_keys: dict[str, float] = {}
        self._organizations: dict[str, int] = {}  # when each last had its turn
        self._turns = 0
        self._may_begin = False
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
            await self._collect()
            goes_on = await self._sweep()
            goes_on |= await self._fill()
            await self._store()
            if not goes_on:
                await asyncio.sleep(POLL_S)

    # What there is:

    async def _refresh(self) -> None:
        """Learn of new batches, of those that are canceled or have expired, and of how the platform is."""
        found = {batch.id: self._known(batch) for batch in await self._database.ask(open_batches)}
        self._batches = found
        self._running = {name: one for name, one in self._running.items() if one.batch.id in found}
        if not found:
            return
        await self._catalog.refresh()
        self._may_begin = await self._is_room_for_logs()
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

    async def _is_room_for_logs(self) -> bool:
        await self._spool.look()
        try:
            self._spool.check()
        except Overloaded:
            return False
        return not await self._redis.get(keys.LOGS_FULL)

    async def _reserve(self) -> None:
        """Keep what quotas hold for messages that wait."""
        names: defaultdict[str, list[str]] = defaultdict(list)
        for one in self._running.values():
            names[one.batch.organization].append(one.id)
        for organization, message_ids in names.items():
            await self._log.run(*renewing(organization, message_ids, long_lease_ms(self._settings)))

    # How requests begin:

    async def _fill(self) -> bool:
        """Begin requests while there is room; say whether there may be more to begin at once."""
        for _ in range(AT_ONCE if self._may_begin else 0):
            batch = self._next() if len(self._running) < self._room else None
            if batch is None:
                return False
            await self._begin(batch)
        return self._may_begin

    @property
    def _room(self) -> int:
        models = {about["model"] for about in self._catalog.workers.values()}
        return min(self._settings.batch_concurrency, sum(map(self._room_at, models)))

    def _room_at(self, model: str) -> int:
        workers = [about for about in self._catalog.workers.values() if about["model"] == model]
        newest = max((about["seen_at"] for about in workers), default=0.0)
        at_once = sum(about.get("max_batch", 1) for about in workers if newest - about["seen_at"] < FRESH_S)
        return max(1, int(at_once * self._settings.batch_share))

    def _has_room(self, model: str) -> bool:
        return sum(one.model == model for one in self._running.values()) < self._room_at(model)

    def _next(self) -> BatchRun | None:
        """Return the batch whose turn it is: that of the organisation which has waited for longest."""
        now = time.monotonic()
        ready = [
            batch
            for batch in self._batches.values()
            if not (batch.stop or batch.exhausted) and now >= max(batch.held_until, self._held_keys.get(batch.key, 0.0))
        ]
        return min(ready, key=lambda b: (self._organizations.get(b.organization, 0), b.served), default=None)

    async def _begin(self, batch: BatchRun) -> None:
        """Begin the next request of a batch."""
        self._turns += 1
        self._organizations[batch.organization] = batch.served = self._turns
        item = await self._take(batch)
        if item is None:
            return
        try:
            caller = await self._callers.find(batch.key)
        except (AuthenticationFailed, PermissionDenied) as error:
            batch.end_with(errored(error))
            return
        try:
            request, rest_s = await self._submission.submit(item, caller)
        except Hold as hold:
            batch.items.appendleft(item)
            self._hold(batch, hold.seconds or POLL_S, whole_key=hold.whole_key)
        except ApiError as error:
            self._end(batch, item.id, errored(error))
        except (RedisError, DatabaseError, OSError):
            raise  # not of its making
        except Exception:
            logger.exception("%s: cannot be run", item.id)
            self._end(batch, item.id, errored(ApiError("The server failed on this request. It has been logged.")))
        else:
            self._running[item.id] = Running(item.id, item.number, batch, request.model)
            self._hold(batch, rest_s, whole_key=True)

    def _hold(self, batch: BatchRun, seconds: float, *, whole_key: bool) -> None:
        until = time.monotonic() + seconds
        if whole_key:
            self._held_keys[batch.key] = until
        else:
            batch.held_until = until

    async def _take(self, batch: BatchRun) -> Item | None:
        """Return the next request that has not begun."""
        if not batch.items:
            found = await self._database.ask(items_after, batch.id, batch.cursor, ITEMS)
            batch.exhausted = len(found) < ITEMS
            if found:
                batch.cursor = found[-1].number
                batch.items.extend(await self._not_begun(batch, found))
        if not batch.items:
            return None
        batch.exhausted = False
        return batch.items.popleft()

    async def _not_begun(self, batch: BatchRun, items: list[Item]) -> list[Item]:
        """Leave out what has begun: before this runner came, say."""
        items = [item for item in items if item.id not in self._running]
        states = await states_of(self._redis, [item.id for item in items])
        unknown = [item.id for item, state in zip(items, states, strict=True) if not state.had_log]
        done = await self._database.ask(recorded, unknown) if unknown else set()
        left = []
        for item, state in zip(items, states, strict=True):
            if state.model is not None:
                self._running[item.id] = Running(item.id, item.number, batch, state.model)
            elif state.had_log or item.id in done:
                self._end(batch, item.id, errored(LOST))
            else:
                left.append(item)
        return left

    # How they end:

    async def _collect(self) -> None:
        """Fetch the answers of messages that have ended."""
        running = list(self._running.values())
        states = await states_of(self._redis, [one.id for one in running])
        done: list[str] = []
        for one, state in zip(running, states, strict=True):
            stop = one.batch.stop
            if state.model is None:
                del self._running[one.id]
                if stop:
                    self._end(one.batch, one.id, stop)
                else:
                    one.batch.rewind(one.number)
            elif state.outcome in CANCEL_REASONS:
                self._end(one.batch, one.id, stop if stop and stop.kind == "expired" else without_message("canceled"))
            elif state.outcome is not None:
                done.append(one.id)
        frames = await asyncio.gather(*map(self._log.whole, done))
        found = zip(done, frames, strict=True)
        results = await asyncio.to_thread(lambda: [ended(name, whole) for name, whole in found if whole])
        for result in results:
            self._ended[self._running[result.id].batch.id].append(result)

    async def _sweep(self) -> bool:
        """End what has not begun of batches that are stopped; say whether there is more of it."""
        goes_on = False
        for batch in self._batches.values():
            if batch.stop is None or batch.exhausted:
                continue
            found = await self._database.ask(ids_after, batch.id, batch.cursor, IDS)
            batch.exhausted = len(found) < IDS
            goes_on |= not batch.exhausted
            if found:
                batch.cursor = found[-1][1]
                await self._sweep_some(batch, batch.stop, found)
        return goes_on

    async def _sweep_some(self, batch: BatchRun, stop: Stop, found: list[tuple[str, int]]) -> None:
        found = [(name, number) for name, number in found if name not in self._running]
        states = await states_of(self._redis, [name for name, _ in found])
        for (name, number), state in zip(found, states, strict=True):
            if state.model is None:
                self._end(batch, name, stop)
            else:
                self._running[name] = Running(name, number, batch, state.model)

    async def _cancel(self, one: Running) -> None:
        """Have a message end: by its worker, or here where none is at it."""
        await self._log.cancel(one.id, "cancelled")
        await self._reaper.end_idle(one.id, one.model)
        while call := self._minutes.call(self._name):
            self._minutes.added(await self._log.run(*call))

    def _note(self, settlement: Settlement) -> None:
        self._minutes.of(settlement.model, settlement.organization).settled(settlement)

    def _end(self, batch: BatchRun, message_id: str, stop: Stop) -> None:
        self._ended[batch.id].append(Ended(message_id, stop.kind, stop.body))

    async def _store(self) -> None:
        """Write down what has ended; only then may its log go."""
        for batch_id, results in self._ended.items():
            await self._database.ask(store_results, batch_id, results)
        fetched = [one.id for results in self._ended.values() for one in results if self._running.pop(one.id, None)]
        self._ended.clear()
        ttl_s = self._settings.event_log_ttl_s
        names = [(keys.log(name), keys.meta(name)) for name in fetched]
        await asyncio.gather(*(self._log.run(scripts.FETCHED, pair, (ttl_s,)) for pair in names))
