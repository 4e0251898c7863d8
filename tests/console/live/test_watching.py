"""What pages are given of what is published."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import redis

from console.live.table import Kind, Message, Table
from console.live.watching import MOST, WAITING, TooMany, Watcher, Watchers
from inference.protocol import keys

SOON_S = 5.0


def told(kind: Kind, number: int) -> Message:
    return Message(kind, number, f"{kind} {number}".encode())


async def heard(watcher: Watcher) -> list[bytes]:
    found = []
    while (event := await watcher.next(0.01)) is not None:
        found.append(event)
    return found


async def test_it_works() -> None:
    watcher = Watcher()
    for message in (told("changes", 6), told("whole", 6), told("changes", 7), told("whole", 7), told("changes", 8)):
        watcher.put(message)
    assert await heard(watcher) == [b"whole 6", b"changes 7", b"changes 8"]


async def test_after_a_gap_it_gets_the_whole() -> None:
    watcher = Watcher()
    for message in (told("whole", 6), told("changes", 8), told("changes", 9)):
        watcher.put(message)
    assert watcher.lost
    assert await heard(watcher) == []
    watcher.put(told("whole", 9))
    assert await heard(watcher) == [b"whole 9"]


async def test_a_slow_page_is_not_waited_for() -> None:
    watcher = Watcher()
    watcher.put(told("whole", 0))
    for number in range(1, WAITING + 2):
        watcher.put(told("changes", number))
    assert watcher.lost
    assert await heard(watcher) == []


@pytest.fixture
async def watchers(store: redis.Redis, redis_server: str) -> AsyncIterator[Watchers]:
    watchers = Watchers(redis_server)
    yield watchers
    listening = watchers._listening
    for watcher in list(watchers._all):
        watchers.leave(watcher)
    if listening is not None:
        await asyncio.wait([listening])


async def listening(store: redis.Redis) -> None:
    async with asyncio.timeout(SOON_S):
        while not store.exists(keys.ASKED):
            await asyncio.sleep(0.01)


async def test_who_joins_asks_for_the_whole(store: redis.Redis, watchers: Watchers) -> None:
    first, second = watchers.join(), watchers.join()
    await listening(store)
    assert 0 < store.ttl(keys.WATCHED) <= 5
    table = Table(1)
    table.update([], total=0, queues={}, at_ms=1)
    store.publish(keys.TABLE, table.whole().encode())
    assert await first.next(SOON_S) == await second.next(SOON_S) == table.whole().frame


async def test_nobody_listens_when_all_have_left(store: redis.Redis, watchers: Watchers) -> None:
    watcher = watchers.join()
    await listening(store)
    assert store.pubsub_numsub(keys.TABLE) == [(keys.TABLE.encode(), 1)]
    watchers.leave(watcher)
    async with asyncio.timeout(SOON_S):
        while store.pubsub_numsub(keys.TABLE) != [(keys.TABLE.encode(), 0)]:
            await asyncio.sleep(0.01)


async def test_it_comes_back_when_redis_does(store: redis.Redis, watchers: Watchers) -> None:
    watchers.join()
    await listening(store)
    store.delete(keys.ASKED)
    store.client_kill_filter(_type="pubsub")
    await listening(store)
    store.delete(keys.ASKED)
    await listening(store)


async def test_it_listens_on_after_what_it_cannot_read(
    store: redis.Redis, watchers: Watchers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("console.live.watching.AGAIN_S", 0.0)
    watcher = watchers.join()
    await listening(store)
    store.publish(keys.TABLE, "what another version says")
    store.delete(keys.ASKED)
    await listening(store)
    table = Table(1)
    table.update([], total=0, queues={}, at_ms=1)
    store.publish(keys.TABLE, table.whole().encode())
    assert await watcher.next(SOON_S) == table.whole().frame


async def test_there_is_room_for_so_many(store: redis.Redis, watchers: Watchers) -> None:
    pages = [watchers.join() for _ in range(MOST)]
    with pytest.raises(TooMany):
        watchers.join()
    watchers.leave(pages[0])
    watchers.join()
