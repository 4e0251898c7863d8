"""Who calls: API keys, with a cache so that a warm key costs no query."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable

from channels.db import database_sync_to_async
from django.db import DatabaseError

from accounts.keys import Caller, digest, find_caller, find_caller_by_id, plain_key, prefix_of
from common.errors import AuthenticationFailed, PermissionDenied, Unavailable
from streaming.asgi import Scope, header

FRESH_S = 1.0  # a revoked key works for at most so long
STALE_S = 600.0  # while the database is away, a key that was good goes on for so long
KEPT = 10_000

logger = logging.getLogger(__name__)


def key_of(scope: Scope) -> str:
    """Return the key that a request carries, or ""."""
    return plain_key(header(scope, b"x-api-key"), header(scope, b"authorization"))


class Authenticator:
    """Find callers by their keys. The cache is by digest: no plain key stays in memory."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, tuple[float, Caller]] = OrderedDict()
        self._asking: dict[str, asyncio.Task[Caller | None]] = {}

    async def authenticate(self, scope: Scope, *, needs: str) -> Caller:
        """Return who calls; raise `AuthenticationFailed`, or `PermissionDenied` without the scope `needs`."""
        plain = key_of(scope)
        if not plain:
            raise AuthenticationFailed("No API key. Send one as x-api-key or Authorization: Bearer.")
        caller = await self._find(plain)
        if caller is None:
            raise AuthenticationFailed("Invalid API key.")
        if needs not in caller.scopes:
            raise PermissionDenied(f"This key lacks the scope {needs}.")
        return caller

    async def by_id(self, key: str, *, needs: str) -> Caller:
        """Return the caller that a key's id stands for; raise as `authenticate` does."""
        caller = await self._cached(key, lambda: find_caller_by_id(key))
        if caller is None:
            raise AuthenticationFailed("The API key of this stream was revoked.")
        if needs not in caller.scopes:
            raise PermissionDenied(f"This key lacks the scope {needs}.")
        return caller

    async def _find(self, plain: str) -> Caller | None:
        if prefix_of(plain) is None:
            return None
        return await self._cached(digest(plain), lambda: find_caller(plain))

    async def _cached(self, name: str, find: Callable[[], Caller | None]) -> Caller | None:
        """Return a caller from the cache while it is fresh, else from the database, asked once for all who wait."""
        known = self._known.get(name)
        if known and time.monotonic() - known[0] < FRESH_S:
            return known[1]
        if name not in self._asking:
            self._asking[name] = asyncio.create_task(self._ask(name, find))
            self._asking[name].add_done_callback(lambda _: self._asking.pop(name, None))
        try:
            return await asyncio.shield(self._asking[name])
        except DatabaseError as error:
            if known and time.monotonic() - known[0] < STALE_S:
                logger.warning("the database is away (%s): a key that was good goes on", error)
                return known[1]
            raise Unavailable("Keys cannot be checked now.", headers={"retry-after": "5"}) from error

    async def _ask(self, name: str, find: Callable[[], Caller | None]) -> Caller | None:
        caller: Caller | None = await database_sync_to_async(find, thread_sensitive=False)()
        if caller is None:
            self._known.pop(name, None)
            return None
        self._known[name] = (time.monotonic(), caller)
        self._known.move_to_end(name)
        while len(self._known) > KEPT:
            self._known.popitem(last=False)
        return caller
