"""What has ended, on its way into the database. Only from there on may its log go."""

from __future__ import annotations

import asyncio
from collections import defaultdict

from batches.ending import Ended, store_results
from inference.protocol import keys, scripts
from streaming.batches.database import Database
from streaming.batches.work import BatchRun, Running
from streaming.eventlog import EventLog


class Ends:
    """Results of requests that are not stored yet, by batch."""

    def __init__(self, log: EventLog, database: Database, running: dict[str, Running], *, log_ttl_s: int) -> None:
        self._log, self._database, self._running, self._log_ttl_s = log, database, running, log_ttl_s
        self._results: defaultdict[str, list[Ended]] = defaultdict(list)

    def add(self, batch: BatchRun, result: Ended) -> None:
        """Take the result of a request."""
        self._results[batch.id].append(result)

    async def store(self) -> None:
        """Write all down, and let the logs go."""
        for batch_id, results in self._results.items():
            await self._database.ask(store_results, batch_id, results)
        fetched = [one.id for results in self._results.values() for one in results if self._running.pop(one.id, None)]
        self._results.clear()
        names = [(keys.log(name), keys.meta(name)) for name in fetched]
        await asyncio.gather(*(self._log.run(scripts.FETCHED, pair, (self._log_ttl_s,)) for pair in names))
