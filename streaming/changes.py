"""Following the changes of keys and organisations, so that callers are remembered for as long as they stay the same."""

from __future__ import annotations

from typing import cast

from redis.asyncio import Redis
from redis.exceptions import RedisError

from accounts.cache import CALLERS, Callers
from accounts.changes import STREAM
from accounts.uses import USED, USES
from inference.protocol.progress import Entry

LOOK_S = 0.25
AT_ONCE = 1000


class Changes:
    """Looks for changes; `position` is the last one known, None while they cannot be followed."""

    def __init__(self, client: Redis, callers: Callers = CALLERS) -> None:
        self._redis, self._callers = client, callers
        self.position: str | None = None

    async def look(self) -> None:
        """Let go of the callers that changed since the last look."""
        try:
            if self.position is None:
                self.position = await self._end()
                self._callers.doubt()
            while entries := await self._after(self.position):
                for entry, fields in entries:
                    self._callers.forget(fields[b"o"].decode(), fields[b"k"].decode())
                    self.position = entry.decode()
        except (RedisError, OSError):
            self.position = None  # Redis may come back without the last changes that it was told
            raise
        self._callers.heard()

    async def tell_uses(self) -> None:
        """Tell of the keys that were used lately."""
        if taken := USES.take():
            try:
                await self._redis.zadd(USED, taken, gt=True)
            except BaseException:  # this task's end, too: whoever ends it tells once more
                USES.give_back(taken)
                raise

    async def since(self, position: str) -> list[tuple[str, str]]:
        """Return the changes after one: the ids of organisations, and of keys, or "" for all keys of one."""
        entries = cast(list[Entry], await self._redis.xrange(STREAM, min=f"({position}"))
        return [(fields[b"o"].decode(), fields[b"k"].decode()) for _, fields in entries]

    async def _end(self) -> str:
        last = cast(list[Entry], await self._redis.xrevrange(STREAM, count=1))
        return last[0][0].decode() if last else "0-0"

    async def _after(self, position: str) -> list[Entry]:
        return cast(list[Entry], await self._redis.xrange(STREAM, min=f"({position}", count=AT_ONCE))
