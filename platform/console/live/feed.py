"""/admin/console/streams/live: the table of open streams as server-sent events, for staff who may see it.

An ASGI application beside Django: under Django's handler each open page would hold a thread, and a connection of the
database with it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from dataclasses import dataclass
from importlib import import_module
from io import BytesIO
from typing import Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.auth import get_user
from django.core.exceptions import DisallowedHost
from django.core.handlers.asgi import ASGIRequest
from django.db import DatabaseError, connections

from common.content_policy import DATA, policy
from console.live.watching import TooMany, Watcher, Watchers

logger = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

PERMISSION = "console.view_streams"
CHECK_S = 15.0  # how often it is asked whether whoever watches still may
SILENCE_S = 5.0  # after so long without news the page is told that nobody makes any
PATIENCE_S = 30.0  # for a page that takes nothing
RETRY_MS = 2000

SessionStore = import_module(settings.SESSION_ENGINE).SessionStore

SILENT = b"event: silent\ndata: {}\n\n"
OVER = b"event: over\ndata: {}\n\n"
LEAVING = b"event: leaving\ndata: {}\n\n"
FAREWELL_S = 1.0  # for a page to take that

HEADERS = [
    (b"cache-control", b"no-store"),
    (b"content-security-policy", policy(DATA).encode()),
    (b"x-content-type-options", b"nosniff"),
]
STREAM_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"x-accel-buffering", b"no"),
    *HEADERS,
]


@dataclass(frozen=True, slots=True)
class Refusal:
    """The answer to who must not watch, or cannot now; pages show what it says."""

    status: int
    why: str
    headers: tuple[tuple[bytes, bytes], ...] = ()


STOPPING = Refusal(503, "This server is going away.", ((b"retry-after", b"2"), (b"connection", b"close")))
FULL = Refusal(503, "Too many pages watch already.", ((b"retry-after", b"30"),))
NO_GET = Refusal(405, "Only GET is served here.", ((b"allow", b"GET"),))


class Feed:
    """Serves the pages of this process."""

    def __init__(self, redis_url: str) -> None:
        self._watchers = Watchers(redis_url)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "GET":
            await _refuse(send, NO_GET)
        elif _stopping(scope).is_set():
            await _refuse(send, STOPPING)
        elif refusal := await _look_up(scope):
            await _refuse(send, refusal)
        else:
            await self._watch(scope, receive, send)

    async def _watch(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            watcher = self._watchers.join()
        except TooMany:
            await _refuse(send, FULL)
            return
        try:
            await send({"type": "http.response.start", "status": 200, "headers": STREAM_HEADERS})
            await _race(scope, receive, _pass_on(watcher, scope, send))
            async with asyncio.timeout(FAREWELL_S):
                farewell = LEAVING if _stopping(scope).is_set() else b""
                await send({"type": "http.response.body", "body": farewell})
        except TimeoutError:  # the page takes nothing
            if drop := scope.get("extensions", {}).get("sluice.drop"):
                drop()
        finally:
            self._watchers.leave(watcher)


async def _race(scope: Scope, receive: Receive, work: Coroutine[Any, Any, None]) -> None:
    """Work until the page is closed, this server stops, or the work is done."""
    others = _gone(receive), _stopping(scope).wait()
    tasks: list[asyncio.Task[Any]] = [asyncio.create_task(work), *map(asyncio.create_task, others)]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    if tasks[0].done() and not tasks[0].cancelled():
        tasks[0].result()  # raises what it failed with


def _stopping(scope: Scope) -> asyncio.Event:
    """Return what is set once this server stops."""
    stopping: asyncio.Event | None = scope.get("extensions", {}).get("sluice.stopping")
    return stopping or asyncio.Event()


async def _pass_on(watcher: Watcher, scope: Scope, send: Send) -> None:
    """Send what the page has to know, while whoever opened it may see it."""

    async def write(body: bytes) -> None:
        async with asyncio.timeout(PATIENCE_S):
            await send({"type": "http.response.body", "body": body, "more_body": True})

    await write(f"retry: {RETRY_MS}\n\n".encode())
    check_due = time.monotonic() + CHECK_S
    while True:
        event = await watcher.next(SILENCE_S)
        if time.monotonic() >= check_due:
            check_due = time.monotonic() + CHECK_S
            if refusal := await _look_up(scope):
                await write(OVER if refusal.status == 403 else b"")  # else the browser asks again, and again is told
                return
        await write(event or SILENT)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _look_up(scope: Scope) -> Refusal | None:
    """Ask the database who this is, in a thread that all share, and which keeps no connection."""
    return await sync_to_async(_refusal_of, thread_sensitive=False)(scope)


def _refusal_of(scope: Scope) -> Refusal | None:
    """Say why a request must not see streams, None where it may."""
    try:
        request = ASGIRequest(scope, BytesIO())
        request.get_host()
        request.session = SessionStore(request.COOKIES.get(settings.SESSION_COOKIE_NAME))
        user = get_user(request)
        may = user.is_active and user.is_staff and user.has_perm(PERMISSION)
    except DisallowedHost:
        return Refusal(400, "This host is not served here.")
    except UnicodeDecodeError:
        return Refusal(400, "The query of the URL is not UTF-8.")
    except DatabaseError as error:
        logger.warning("nobody may watch streams: the database does not answer: %s", str(error).partition("\n")[0])
        return Refusal(503, "The database does not answer.")
    finally:
        connections.close_all()
    return None if may else Refusal(403, "Log in as staff who may watch active streams.")


async def _refuse(send: Send, refusal: Refusal) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), *HEADERS, *refusal.headers]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": refusal.why.encode()})
