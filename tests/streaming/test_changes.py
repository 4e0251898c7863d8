"""Hearing of changes, and the copies of callers that hold while the database is away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import redis
from django.db import OperationalError
from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError

from accounts.cache import Callers
from accounts.callers import Caller, Quota
from accounts.changes import STREAM
from accounts.uses import USED, USES
from common.errors import Unavailable
from streaming import auth
from streaming.auth import Authenticator
from streaming.changes import Changes
from streaming.copies import Copies
from streaming.tasks import end
from tests.streaming.test_auth import CALLER, GOOD, Clock, Keys, keys

__all__ = ["keys"]


class Gateway:
    """One gateway's knowledge of callers."""

    def __init__(self, client: Redis, clock: Clock) -> None:
        self.clock = clock
        self.callers = Callers(clock)
        self.changes = Changes(client, self.callers)
        self.copies = Copies(client, self.changes)
        self.authenticator = Authenticator(self.copies, self.callers)

    async def authenticate(self) -> Caller:
        return await self.authenticator.authenticate(GOOD, needs="inference")

    async def kept(self) -> None:
        """Wait until the copies are there."""
        while self.copies._keeping:
            await next(iter(self.copies._keeping))


@pytest.fixture
async def client(store: redis.Redis, redis_server: str) -> AsyncIterator[Redis]:
    client = Redis.from_url(redis_server)
    yield client
    await client.aclose()


@pytest.fixture
async def gateway(client: Redis) -> Gateway:
    return await made(client)


async def made(client: Redis) -> Gateway:
    gateway = Gateway(client, Clock())
    await gateway.changes.look()
    return gateway


def change(store: redis.Redis, organization: str = "org_1", key: str = "") -> None:
    store.xadd(STREAM, {"o": organization, "k": key})


async def test_uses_that_are_told_at_the_end_are_not_lost(client: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    telling = asyncio.Event()

    async def hang(*args: Any, **options: Any) -> None:
        telling.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(client, "zadd", hang)
    USES.take()
    USES.note("key_1")
    task = asyncio.create_task(Changes(client).tell_uses())
    await telling.wait()
    await end([task])
    assert set(USES.take()) == {"key_1"}


async def test_a_change_is_heard_of_on_every_gateway(store: redis.Redis, client: Redis, keys: Keys) -> None:
    gateways = [await made(client), await made(client)]
    for gateway in gateways:
        await gateway.authenticate()
    for touched in ("key_1", ""):
        asked = keys.asked
        change(store, key=touched)
        for gateway in gateways:
            await gateway.changes.look()
            await gateway.authenticate()
        assert keys.asked == asked + 2


async def test_a_change_of_others_costs_nothing(store: redis.Redis, gateway: Gateway, keys: Keys) -> None:
    await gateway.authenticate()
    change(store, key="key_2")
    change(store, organization="org_2")
    await gateway.changes.look()
    await gateway.authenticate()
    assert keys.asked == 1


async def test_many_changes_are_heard_of_in_one_look(store: redis.Redis, gateway: Gateway, keys: Keys) -> None:
    await gateway.authenticate()
    for number in range(2500):
        change(store, organization=f"org_{number + 2}")
    change(store)
    await gateway.changes.look()
    assert gateway.callers.look("key_1") is None
    await gateway.authenticate()
    assert keys.asked == 2


async def test_when_redis_was_away_everything_is_asked_again(gateway: Gateway, client: Redis, keys: Keys) -> None:
    await gateway.authenticate()
    working = gateway.changes._redis
    gateway.changes._redis = Redis.from_url("unix:///nowhere", retry=None)
    with pytest.raises(RedisConnectionError):
        await gateway.changes.look()
    assert gateway.changes.position is None
    gateway.changes._redis = working
    await gateway.changes.look()
    gateway.clock.now += 1
    gateway.callers.heard()
    await gateway.authenticate()
    assert keys.asked == 2


async def test_uses_are_told(store: redis.Redis, gateway: Gateway, keys: Keys) -> None:
    USES.take()
    await gateway.authenticate()
    await gateway.changes.tell_uses()
    assert store.zrange(USED, 0, -1) == [b"key_1"]


class TestCopies:
    """One gateway met the key, another one has to do without the database."""

    @pytest.fixture
    async def stranger(self, client: Redis, gateway: Gateway, keys: Keys) -> Gateway:
        keys.known = dict.fromkeys(keys.known, FULL)
        await gateway.authenticate()
        await gateway.kept()
        keys.error = OperationalError("away")
        return await made(client)

    async def test_it_works(self, stranger: Gateway, keys: Keys) -> None:
        asked = keys.asked
        for _ in range(3):
            assert await stranger.authenticate() == FULL
        assert keys.asked == asked + 1, "then it is remembered"

    async def test_it_goes_with_the_next_change(self, store: redis.Redis, stranger: Gateway) -> None:
        await stranger.authenticate()
        change(store, key="key_1")
        await stranger.changes.look()
        with pytest.raises(Unavailable):
            await stranger.authenticate()

    @pytest.mark.parametrize("touched", ["key_1", ""])
    async def test_not_after_a_change(self, store: redis.Redis, stranger: Gateway, touched: str) -> None:
        change(store, key=touched)
        with pytest.raises(Unavailable):
            await stranger.authenticate()

    async def test_but_after_one_of_others(self, store: redis.Redis, stranger: Gateway) -> None:
        change(store, key="key_2")
        change(store, organization="org_2")
        assert await stranger.authenticate() == FULL

    async def test_a_change_while_the_database_was_asked_counts(
        self, store: redis.Redis, client: Redis, gateway: Gateway, keys: Keys, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def find(plain: str) -> Caller | None:
            change(store, key="key_1")
            return CALLER

        monkeypatch.setattr(auth, "find_caller", find)
        await gateway.authenticate()
        await gateway.kept()
        monkeypatch.setattr(auth, "find_caller", keys.find)
        keys.error = OperationalError("away")
        with pytest.raises(Unavailable):
            await (await made(client)).authenticate()

    async def test_one_that_cannot_be_read_is_none(self, store: redis.Redis, stranger: Gateway) -> None:
        for name in store.keys("sluice:accounts:caller:*"):
            store.set(name, b'{"caller":{},"position":"0-0"}')
        with pytest.raises(Unavailable):
            await stranger.authenticate()

    async def test_no_key_is_in_it(self, store: redis.Redis, stranger: Gateway) -> None:
        kept: list[Any] = [value for name in store.keys("*caller*") for value in (name, store.get(name))]
        assert kept
        assert GOOD["headers"][0][1] not in b"".join(kept)


FULL = Caller(
    "key_1",
    "org_1",
    frozenset({"inference", "usage"}),
    frozenset({"a"}),
    "batch",
    "strict",
    Quota(rpm=5, shadow=True),
    Quota(budget_tokens=100),
    9e9,
)
