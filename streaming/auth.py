"""Who calls: API keys, most of them remembered, so that a warm key costs no query."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from channels.db import database_sync_to_async
from django.db import Error as DatabaseError

from accounts.cache import CALLERS, Callers
from accounts.callers import Caller
from accounts.finding import find_caller, find_caller_by_id
from accounts.plain import digest, plain_key, prefix_of
from accounts.terms import Scope as KeyScope
from accounts.uses import USES
from common.errors import AuthenticationFailed, Unavailable
from streaming.asgi import Scope, header
from streaming.copies import Copies

PATIENCE_S = 2.0  # for a database that does not answer at all
COMPLAIN_S = 10.0
THREADS = 4

logger = logging.getLogger(__name__)


def key_of(scope: Scope) -> str:
    """Return the key that a request carries, or ""."""
    return plain_key(header(scope, b"x-api-key"), header(scope, b"authorization"))


class Authenticator:
    """Find callers by their keys: in memory, else in the database, and in the copies of other gateways without it."""

    def __init__(self, copies: Copies | None = None, callers: Callers = CALLERS) -> None:
        self._copies, self._callers = copies, callers
        self._asking: dict[str, asyncio.Task[Caller | None]] = {}
        self._complained_at = float("-inf")
        # Its own: a database that does not answer must not hold up what else is done in threads.
        self._threads = ThreadPoolExecutor(THREADS, "keys")

    async def authenticate(self, scope: Scope, *, needs: KeyScope) -> Caller:
        """Return who calls; raise `AuthenticationFailed`, or `PermissionDenied` without the scope `needs`."""
        plain = key_of(scope)
        if not plain:
            raise AuthenticationFailed("No API key. Send one as x-api-key or Authorization: Bearer.")
        caller = await self._find(plain)
        if caller is None:
            raise AuthenticationFailed("Invalid API key.")
        return _checked(caller, needs)

    async def by_id(self, key: str, *, needs: KeyScope) -> Caller:
        """Return the caller that a key's id stands for; raise as `authenticate` does."""
        caller = await self._remembered(key, lambda: find_caller_by_id(key))
        if caller is None:
            raise AuthenticationFailed("The API key of this stream is gone.")
        return _checked(caller, needs)

    async def _find(self, plain: str) -> Caller | None:
        name = digest(plain)
        if self._callers.look(name) is None and prefix_of(plain) is None:
            return None  # never issued here
        return await self._remembered(name, lambda: find_caller(plain))

    async def _remembered(self, name: str, find: Callable[[], Caller | None]) -> Caller | None:
        """Return a caller from memory while it is fresh, else from the database, asked once for all who wait."""
        known = self._callers.look(name)
        if known is not None and self._callers.is_fresh(known):
            if self._callers.is_due(known):
                self._ask(name, find)
            return known.caller
        if self._callers.is_unknown(name):
            return None
        try:
            return await asyncio.wait_for(asyncio.shield(self._ask(name, find)), PATIENCE_S)
        except (DatabaseError, OSError) as error:  # TimeoutError is one
            self._complain(error)
            if known is not None and self._callers.is_usable(known):
                return known.caller
            if caller := await self._copied(name):
                return caller
            raise Unavailable("Keys cannot be checked now.", headers={"retry-after": "5"}) from error

    def _ask(self, name: str, find: Callable[[], Caller | None]) -> asyncio.Task[Caller | None]:
        if name not in self._asking:
            self._asking[name] = task = asyncio.create_task(self._asked(name, find))
            task.add_done_callback(lambda _: self._answered(name))
        return self._asking[name]

    def _answered(self, name: str) -> None:
        task = self._asking.pop(name)
        if not task.cancelled() and (error := task.exception()):
            self._complain(error)

    async def _asked(self, name: str, find: Callable[[], Caller | None]) -> Caller | None:
        since = self._callers.moment()
        position = self._copies.position if self._copies else None
        ask = database_sync_to_async(find, thread_sensitive=False, executor=self._threads)
        caller: Caller | None = await ask()
        self._callers.learn(name, caller, since=since)
        if self._copies is not None and caller is not None and position is not None:
            self._copies.keep(name, caller, position)
        return caller

    async def _copied(self, name: str) -> Caller | None:
        if self._copies is None:
            return None
        since = self._callers.moment()
        caller = await self._copies.find(name)
        if caller is not None:
            self._callers.learn(name, caller, since=since)
        return caller

    def _complain(self, error: BaseException) -> None:
        if time.monotonic() - self._complained_at > COMPLAIN_S:
            self._complained_at = time.monotonic()
            logger.warning("the database is away (%r): keys that were good go on", error)


def _checked(caller: Caller, needs: KeyScope) -> Caller:
    caller.check(needs=needs)
    USES.note(caller.key)
    return caller
