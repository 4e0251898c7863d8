"""Keeping the logs to their budget."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import redis
from redis.asyncio import Redis

from common.errors import Overloaded
from inference.protocol import keys
from streaming.janitor import Janitor
from tests.streaming.conftest import Ask, a_body


@pytest.fixture
async def client(redis_server: str) -> AsyncIterator[Redis]:
    made = Redis.from_url(redis_server)
    yield made
    await made.aclose()


def log(store: redis.Redis, message_id: str, size: int, *, opened: int, ended: bool) -> None:
    store.zadd(keys.LOGS, {message_id: opened})
    store.xadd(keys.log(message_id), {"f": "x"})
    store.hset(keys.meta(message_id), "bytes", size)
    if ended:
        store.hset(keys.meta(message_id), "ended", 3)


def left(store: redis.Redis) -> set[str]:
    return {name.decode().split("{")[1].split("}")[0] for name in store.scan_iter("sluice:*:log")}


async def test_the_oldest_finished_ones_go(store: redis.Redis, client: Redis) -> None:
    for i, ended in enumerate([False, True, True, True]):
        log(store, f"msg_{i}", 400, opened=i, ended=ended)
    janitor = Janitor(client, max_bytes=1000)
    await janitor.look()
    assert left(store) == {"msg_0", "msg_3"}
    assert store.zcard(keys.LOGS) == 2
    janitor.check()


async def test_running_ones_stay_and_new_ones_are_refused(store: redis.Redis, client: Redis) -> None:
    log(store, "msg_0", 2000, opened=0, ended=False)
    log(store, "msg_1", 10, opened=1, ended=True)
    janitor, other = Janitor(client, max_bytes=1000), Janitor(client, max_bytes=1000)
    await janitor.look()
    await other.look()
    assert left(store) == {"msg_0"}
    for gateway in (janitor, other):
        with pytest.raises(Overloaded):
            gateway.check()
    store.hset(keys.meta("msg_0"), "ended", 3)
    store.delete(keys.JANITOR)
    await janitor.look()
    janitor.check()


async def test_expired_logs_are_forgotten(store: redis.Redis, client: Redis) -> None:
    store.zadd(keys.LOGS, {f"msg_{i}": i for i in range(2500)})
    log(store, "msg_1200", 10, opened=1200, ended=True)
    await Janitor(client, max_bytes=1000).look()
    assert store.zrange(keys.LOGS, 0, -1) == [b"msg_1200"]


async def test_sizes_are_counted_as_logs_grow(ask: Ask, store: redis.Redis) -> None:
    r = await (await ask("POST", "/v1/messages", a_body(stream=True))).whole()
    message_id = r.events[0]["message"]["id"]
    size = int(store.hget(keys.meta(message_id), "bytes") or 0)
    assert len(r.body) < size < 2 * len(r.body)
    assert store.zscore(keys.LOGS, message_id) is not None
