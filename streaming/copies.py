"""What gateways found out about callers, in Redis: for the gateway that meets a key while the database is away.

A copy says up to where its gateway had heard of changes. It counts for nothing once the key or its organisation changed
after that.
"""

from __future__ import annotations

import asyncio

import msgspec
from redis.asyncio import Redis
from redis.exceptions import RedisError

from accounts.callers import Caller
from accounts.changes import KEPT_S as CHANGES_KEPT_S
from streaming.changes import Changes

KEPT_S = 900  # seconds
PATIENCE_S = 2.0
assert KEPT_S < CHANGES_KEPT_S, "a copy is held against all changes since it was made"


class Copy(msgspec.Struct):
    """A caller, and the last change that was known when it was asked for."""

    caller: Caller
    position: str


class Copies:
    """Keeps and finds copies of callers, by the digest of a key or by its id."""

    def __init__(self, client: Redis, changes: Changes) -> None:
        self._redis, self._changes = client, changes
        self._keeping: set[asyncio.Task[None]] = set()

    @property
    def position(self) -> str | None:
        """The last change that is known here; None while they cannot be followed."""
        return self._changes.position

    def keep(self, name: str, caller: Caller, position: str) -> None:
        """Keep a copy, in the background; that one could not be kept is no harm."""
        task = asyncio.create_task(self._keep(name, Copy(caller, position)))
        self._keeping.add(task)
        task.add_done_callback(self._keeping.discard)

    async def find(self, name: str) -> Caller | None:
        """Return the caller of a copy that still counts, None where there is none."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                raw = await self._redis.get(_key(name))
                if raw is None:
                    return None
                copy = msgspec.json.decode(raw, type=Copy)
                changes = await self._changes.since(copy.position)
        except (RedisError, OSError, msgspec.MsgspecError):  # one of a later version may not be readable
            return None
        caller = copy.caller
        touched = any(org == caller.organization and key in ("", caller.key) for org, key in changes)
        return None if touched else caller

    async def _keep(self, name: str, copy: Copy) -> None:
        try:
            await self._redis.set(_key(name), msgspec.json.encode(copy), ex=KEPT_S)
        except (RedisError, OSError):
            pass  # it is only needed while the database is away


def _key(name: str) -> str:
    return f"sluice:accounts:caller:{name}"
