"""The live table over HTTP: who may watch, and for how long."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, MutableMapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import redis
from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.auth.models import Permission, User
from django.db import connections
from django.test import Client

from console.live import feed
from console.live.feed import Feed
from console.live.table import Table
from inference.protocol import keys

pytestmark = pytest.mark.django_db(transaction=True)

SOON_S = 10.0


async def in_a_thread(act: Callable[[], Any]) -> None:
    """Do something with the database, and leave no connection behind: it would be in the way of the database's end."""

    def work() -> None:
        try:
            act()
        finally:
            connections.close_all()

    await sync_to_async(work)()


class Browser:
    """A connection to the feed."""

    def __init__(
        self, app: Feed, cookie: str = "", *, method: str = "GET", host: str = "localhost", query: bytes = b"",
        takes: bool = True,
    ) -> None:  # fmt: skip
        headers = [(b"host", host.encode()), (b"cookie", f"{settings.SESSION_COOKIE_NAME}={cookie}".encode())]
        self.stopping = asyncio.Event()
        scope = {
            "type": "http", "method": method, "path": "/admin/console/streams/live", "headers": headers,
            "query_string": query, "extensions": {"sluice.stopping": self.stopping, "sluice.drop": self._drop},
        }  # fmt: skip
        self._gone, self._said = asyncio.Event(), asyncio.Queue[Any]()
        self._takes, self.dropped = takes, False
        self.task = asyncio.create_task(app(scope, self._receive, self._send))

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        if "status" not in message and not self._takes:
            await asyncio.Event().wait()
        await self._said.put(message)

    def _drop(self) -> None:
        self.dropped = True

    async def _receive(self) -> dict[str, Any]:
        await self._gone.wait()
        return {"type": "http.disconnect"}

    def leave(self) -> None:
        self._gone.set()

    async def said(self) -> dict[str, Any]:
        async with asyncio.timeout(SOON_S):
            return dict(await self._said.get())

    async def status(self) -> int:
        return int((await self.said())["status"])

    async def body(self) -> bytes:
        return bytes((await self.said()).get("body", b""))

    async def end(self) -> None:
        async with asyncio.timeout(SOON_S):
            await self.task


@pytest.fixture
def user(db: None) -> User:
    user = User.objects.create_user("olga", password="pw", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename="view_streams"))
    return user


@pytest.fixture
def cookie(user: User, client: Client) -> str:
    client.force_login(user)
    return str(client.cookies[settings.SESSION_COOKIE_NAME].value)


@pytest.fixture
async def app(store: redis.Redis, redis_server: str) -> AsyncIterator[Feed]:
    yield Feed(redis_server)
    async with asyncio.timeout(SOON_S):  # what listened to Redis ends with the last page
        while any(task.get_name() == "console" for task in asyncio.all_tasks()):
            await asyncio.sleep(0.01)


@asynccontextmanager
async def watching(app: Feed, cookie: str) -> AsyncIterator[Browser]:
    browser = Browser(app, cookie)
    assert await browser.status() == 200
    assert await browser.body() == b"retry: 2000\n\n"
    yield browser
    browser.leave()
    await browser.end()


async def test_it_works(app: Feed, cookie: str, store: redis.Redis) -> None:
    async with watching(app, cookie) as browser:
        async with asyncio.timeout(SOON_S):
            while not store.exists(keys.ASKED):
                await asyncio.sleep(0.01)
        table = Table(1)
        table.update([], total=0, queues={}, at_ms=1)
        store.publish(keys.TABLE, table.whole().encode())
        assert await browser.body() == table.whole().frame


async def test_it_is_a_stream_that_nobody_keeps(app: Feed, cookie: str, store: redis.Redis) -> None:
    browser = Browser(app, cookie)
    headers = dict((await browser.said())["headers"])
    assert headers[b"content-type"] == b"text/event-stream; charset=utf-8"
    assert (headers[b"cache-control"], headers[b"x-accel-buffering"]) == (b"no-store", b"no")
    assert headers[b"content-security-policy"].startswith(b"default-src 'none'")
    browser.leave()
    await browser.end()


async def test_a_stranger_is_refused(app: Feed, store: redis.Redis) -> None:
    assert await Browser(app).status() == 403


async def test_one_who_may_not_is_refused(app: Feed, cookie: str, user: User, store: redis.Redis) -> None:
    for changes in ({"is_staff": False}, {"is_staff": True, "is_active": False}, {"is_active": True}):
        await in_a_thread(partial(User.objects.filter(pk=user.pk).update, **changes))
        if changes == {"is_active": True}:
            await in_a_thread(user.user_permissions.clear)
        assert await Browser(app, cookie).status() == 403


async def test_what_is_asked_wrongly_is_refused(app: Feed, cookie: str, store: redis.Redis) -> None:
    assert await Browser(app, cookie, host="evil.example").status() == 400
    assert await Browser(app, cookie, query=b"\xff").status() == 400
    assert await Browser(app, cookie, method="POST").status() == 405


async def test_who_logs_out_sees_no_more(
    app: Feed, cookie: str, client: Client, store: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "CHECK_S", 0.0)
    monkeypatch.setattr(feed, "SILENCE_S", 0.05)
    async with watching(app, cookie) as browser:
        assert await browser.body() == feed.SILENT, "nobody makes the table"
        await in_a_thread(client.logout)
        while (body := await browser.body()) == feed.SILENT:
            pass
        assert body == feed.OVER
        assert await browser.said() == {"type": "http.response.body", "body": b""}


async def test_a_stop_of_the_server_ends_it(app: Feed, cookie: str, store: redis.Redis) -> None:
    async with watching(app, cookie) as browser:
        browser.stopping.set()
        await browser.end()
        assert await browser.said() == {"type": "http.response.body", "body": feed.LEAVING}


async def test_a_server_that_stops_takes_nobody(app: Feed, cookie: str, store: redis.Redis) -> None:
    browser = Browser(app, cookie)
    browser.stopping.set()
    refused = await browser.said()
    headers = dict(refused["headers"])
    assert (refused["status"], headers[b"retry-after"], headers[b"connection"]) == (503, b"2", b"close")
    assert await browser.body() == b"This server is going away."


async def test_a_stop_does_not_wait_for_a_page_that_takes_nothing(
    app: Feed, cookie: str, store: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "FAREWELL_S", 0.05)
    browser = Browser(app, cookie, takes=False)
    assert await browser.status() == 200
    browser.stopping.set()
    await browser.end()
    assert browser.dropped


async def test_too_many_are_told_to_come_again(
    app: Feed, cookie: str, store: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("console.live.watching.MOST", 1)
    async with watching(app, cookie):
        refused = await Browser(app, cookie).said()
    assert (refused["status"], dict(refused["headers"])[b"retry-after"]) == (503, b"30")


async def test_a_page_that_takes_nothing_is_dropped(
    app: Feed, cookie: str, store: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "PATIENCE_S", 0.05)
    browser = Browser(app, cookie, takes=False)
    assert await browser.status() == 200
    await browser.end()
    assert browser.dropped
