"""Watching what waits for the database, and the memory of Redis, in which it waits.

While the database is away nobody is refused, since reports wait in Redis: the log warns, the metrics tell. Reports are
what bills are made of, so none is ever dropped. Before they fill Redis, new requests are refused instead, while there
still is room for running ones to end.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import ResponseError

from common.errors import Overloaded
from inference.protocol import keys
from inference.protocol.settings import Settings
from records import spool
from records.spool import Spool

LOOK_S = 5.0
REMIND_S = 60.0
FULL = 0.95  # of the memory that Redis may take; the rest is for what runs

logger = logging.getLogger(__name__)


class Alarm:
    """Something that lasts: told at once, again now and then, and when it is over."""

    def __init__(self, level: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._level, self._clock = level, clock
        self._told_at: float | None = None

    def set(self, trouble: str, over: str) -> None:
        """Tell of a trouble; where that is "", that it is over."""
        if trouble and (self._told_at is None or self._clock() - self._told_at >= REMIND_S):
            self._told_at = self._clock()
            logger.log(self._level, trouble)
        elif not trouble and self._told_at is not None:
            self._told_at = None
            logger.warning(over)


class SpoolWatch:
    """What one gateway knows of the spool. It only reads, so that it works on a full Redis, too."""

    def __init__(self, client: Redis, settings: Settings) -> None:
        self._redis, self._settings = client, settings
        self._behind, self._refusing = Alarm(logging.WARNING), Alarm(logging.ERROR)
        self._obstacle = ""

    def check(self) -> None:
        """Raise `Overloaded` while nothing more can be kept."""
        if self._obstacle:
            raise Overloaded("No more requests can be recorded now. Try again later.", headers={"retry-after": "30"})

    async def look(self) -> None:
        """See how things are, and tell the log what an operator should know."""
        async with self._redis.pipeline(transaction=False) as pipe:
            pipe.time()
            pipe.smembers(keys.MODELS)
            pipe.info("memory")
            (seconds, micros), models, memory = await pipe.execute(raise_on_error=False)
        async with self._redis.pipeline(transaction=False) as pipe:
            spool.ask(pipe, sorted(name.decode() for name in models))
            found = spool.read(await pipe.execute(), seconds + micros / 1e6)
        self._obstacle = self._too_many(found) or _no_room(memory)
        self._behind.set(self._late(found), "the database has all reports again that waited for it")
        self._refusing.set(self._obstacle and f"new requests are refused: {self._obstacle}", "new requests are served")

    def _late(self, found: Spool) -> str:
        if found.waiting <= self._settings.spool_alarm_reports and found.oldest_s <= self._settings.spool_alarm_s:
            return ""
        return f"{found.waiting} reports wait for the database, the oldest for {found.oldest_s:.0f} s"

    def _too_many(self, found: Spool) -> str:
        limit = self._settings.spool_limit
        return f"{found.waiting} reports wait for the database (SLUICE_SPOOL_LIMIT={limit})" * (found.waiting > limit)


def _no_room(memory: dict[str, Any] | ResponseError) -> str:
    """Say that Redis is nearly full; "" where there is room, or it does not tell."""
    if isinstance(memory, ResponseError) or not memory.get("maxmemory"):
        return ""
    used, most = memory["used_memory"], memory["maxmemory"]
    return f"Redis takes {used} of {most} bytes" if used > FULL * most else ""
