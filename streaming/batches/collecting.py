"""How requests of batches end: with the answers of their messages, or, once a batch is stopped, without any."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from redis.asyncio import Redis

from batches.ending import Ended
from inference.protocol.outcomes import CANCEL_REASONS
from streaming.batches.database import Database, ids_after
from streaming.batches.ends import Ends
from streaming.batches.results import ended, stopped, without_message
from streaming.batches.states import states_of
from streaming.batches.telling import Telling
from streaming.batches.work import BatchRun, Running, Stop
from streaming.eventlog import EventLog

IDS = 500  # of a batch, that are taken from the database at once


class Collecting:
    """Ends what is over."""

    def __init__(
        self,
        client: Redis,
        log: EventLog,
        database: Database,
        running: dict[str, Running],
        ends: Ends,
        telling: Telling,
    ) -> None:
        self._redis, self._log, self._database = client, log, database
        self._running, self._ends, self._telling = running, ends, telling

    async def collect(self) -> None:
        """Fetch the answers of messages that have ended."""
        running = list(self._running.values())
        states = await states_of(self._redis, [one.id for one in running])
        over: list[tuple[Running, str]] = []
        for one, state in zip(running, states, strict=True):
            if state.model is None:
                self._lose(one)
            elif state.outcome is not None:
                over.append((one, state.outcome))
        frames = await asyncio.gather(*(self._log.whole(one.id) for one, _ in over))
        found = [(one, outcome, whole) for (one, outcome), whole in zip(over, frames, strict=True)]
        results = await asyncio.to_thread(lambda: [_result(*of_one) for of_one in found])
        done = [(one, whole, result) for (one, _, whole), result in zip(found, results, strict=True) if result]
        for one, _, result in done:
            self._ends.add(one.batch, result)
        await asyncio.gather(*(self._telling.ended(one, whole) for one, whole, _ in done))

    def _lose(self, one: Running) -> None:
        """End a request whose log is gone with its batch, or begin it again."""
        del self._running[one.id]
        if one.batch.stop:
            self._ends.add(one.batch, stopped(one.id, one.batch.stop))
        else:
            one.batch.rewind(one.number)

    async def sweep(self, batches: Iterable[BatchRun]) -> bool:
        """End what has not begun of batches that are stopped; say whether there is more of it."""
        goes_on = False
        for batch in batches:
            if batch.stop is None or batch.exhausted:
                continue
            found = await self._database.ask(ids_after, batch.id, batch.cursor, IDS)
            batch.exhausted = len(found) < IDS
            goes_on |= not batch.exhausted
            if found:
                batch.cursor = found[-1][1]
                await self._sweep(batch, batch.stop, found)
        return goes_on

    async def _sweep(self, batch: BatchRun, stop: Stop, found: list[tuple[str, int]]) -> None:
        found = [(name, number) for name, number in found if name not in self._running]
        states = await states_of(self._redis, [name for name, _ in found])
        for (name, number), state in zip(found, states, strict=True):
            if state.model is None:
                self._ends.add(batch, stopped(name, stop))
            else:
                self._running[name] = Running(name, number, batch, state.model)


def _result(one: Running, outcome: str, frames: bytes) -> Ended | None:
    """Return what a message came to; None where its events are gone, so that it has to be looked at again."""
    if outcome in CANCEL_REASONS:
        stop = one.batch.stop
        return stopped(one.id, stop if stop and stop.kind == "expired" else without_message("canceled"))
    return ended(one.id, frames) if frames else None
