"""Keeping the event logs to their budget: finished ones go first, the oldest first; else new requests are refused."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, cast

from redis.asyncio import Redis

from common.errors import Overloaded
from inference.protocol import keys

logger = logging.getLogger(__name__)

LOOK_S = 2.0
TURN_MS = 1500  # one gateway looks in this time, whatever their number
AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class LogSize:
    """What a log takes, whether it is finished, and whether somebody may be reading it still, or comes for it later."""

    message_id: str
    size: int
    ended: bool
    read: bool


class Janitor:
    """Looks after the logs of all gateways, in turns with the others."""

    def __init__(self, client: Redis, *, max_bytes: int) -> None:
        self._redis, self._max_bytes = client, max_bytes
        self._full = False

    def check(self) -> None:
        """Raise `Overloaded` while unfinished logs alone pass the budget."""
        if self._full:
            raise Overloaded("The event logs are full. Try again shortly.", headers={"retry-after": "5"})

    async def look(self) -> None:
        """Measure the logs, when it is our turn, and make room; learn whether there is any."""
        if await self._redis.set(keys.JANITOR, "1", nx=True, px=TURN_MS):
            over = await self._make_room(await self._measure())
            await self._redis.set(keys.LOGS_FULL, "1" if over else "", px=int(5 * LOOK_S * 1000))
        self._full = bool(await self._redis.get(keys.LOGS_FULL))

    async def _measure(self) -> list[LogSize]:
        """Return all logs, the oldest first, and forget those that have expired."""
        found: list[LogSize] = []
        start = 0
        now_ms = (await self._redis.time())[0] * 1000
        while names := cast(list[bytes], await self._redis.zrange(keys.LOGS, start, start + AT_ONCE - 1)):
            gone: list[bytes] = []
            for name, (size, ended, read_until, kept_s) in zip(names, await self._look_up(names), strict=True):
                if size is None:
                    gone.append(name)
                else:
                    read = kept_s is not None or (read_until is not None and int(read_until) > now_ms)
                    found.append(LogSize(name.decode(), int(size), ended is not None, read))
            if gone:
                await self._redis.zrem(keys.LOGS, *gone)
            start += len(names) - len(gone)
        return found

    async def _look_up(self, names: list[bytes]) -> list[Any]:
        async with self._redis.pipeline(transaction=False) as pipe:
            for name in names:
                pipe.hmget(keys.meta(name.decode()), ["bytes", "ended", "read_until", "kept_s"])
            return await pipe.execute()

    async def _make_room(self, logs: list[LogSize]) -> bool:
        """Delete finished logs until the budget is kept; say whether it still is not."""
        over = sum(log.size for log in logs) - self._max_bytes
        for log in sorted(logs, key=lambda log: log.read):  # stable: the oldest first, those being read last
            if over <= 0:
                break
            if log.ended:
                await self._redis.delete(keys.log(log.message_id), keys.meta(log.message_id))
                await self._redis.zrem(keys.LOGS, log.message_id)
                over -= log.size
        if over > 0:
            logger.warning("the logs of running messages pass the budget by %d bytes: new ones are refused", over)
        return over > 0
