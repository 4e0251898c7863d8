"""Hearing of events over one connection."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import redis
from redis.asyncio import Redis

from inference.protocol import keys
from streaming.announcements import Announcements, parse


@pytest.fixture
async def hub(store: redis.Redis, redis_server: str) -> AsyncIterator[Announcements]:
    client = Redis.from_url(redis_server, protocol=2)
    made = Announcements(client)
    made.start()
    yield made
    await made.close()
    await client.aclose()


def announce(store: redis.Redis, message_id: str, payload: bytes) -> None:
    store.publish(keys.channel(message_id), payload)


async def test_it_works(hub: Announcements, store: redis.Redis) -> None:
    async with hub.subscribe("msg_1", limit=10) as heard:
        await heard.confirmed()
        announce(store, "msg_1", b"2 3 1 1\nid: 2\n\nid: 3\n\n")
        announcement = await heard.get(5)
    assert announcement is not None
    assert announcement.first_id == 2
    assert (announcement.chunk.last_id, announcement.chunk.deltas, announcement.chunk.ended) == (3, 1, True)
    assert announcement.chunk.frames == b"id: 2\n\nid: 3\n\n"


async def test_each_reader_hears_its_own_message(hub: Announcements, store: redis.Redis) -> None:
    async with hub.subscribe("a", limit=10) as a, hub.subscribe("b", limit=10) as b, hub.subscribe("a", limit=10) as a2:
        for reader in (a, b, a2):
            await reader.confirmed()
        announce(store, "a", b"2 2 0 0\nA")
        announce(store, "b", b"2 2 0 0\nB")
        heard = [await reader.get(5) for reader in (a, b, a2)]
    assert [h.chunk.frames for h in heard if h] == [b"A", b"B", b"A"]


async def test_silence_gives_none(hub: Announcements) -> None:
    async with hub.subscribe("msg_1", limit=10) as heard:
        assert await heard.get(0.01) is None
        assert not heard.missed


async def test_more_than_may_wait_is_only_noted(hub: Announcements, store: redis.Redis) -> None:
    async with hub.subscribe("msg_1", limit=2) as heard, hub.subscribe("msg_1", limit=10) as fast:
        await fast.confirmed()
        for i in range(2, 6):
            announce(store, "msg_1", b"%d %d 0 0\nx" % (i, i))
        for _ in range(4):
            assert await fast.get(5)
        assert heard.missed
        assert len(heard._waiting) <= 2


async def test_nothing_is_left_behind(hub: Announcements, store: redis.Redis) -> None:
    async with hub.subscribe("msg_1", limit=10) as heard:
        await heard.confirmed()
        assert keys.channel("msg_1").encode() in store.pubsub_channels()
    async with hub.subscribe("msg_2", limit=10):
        pass
    assert hub._readers == {}
    assert hub._confirmed == {}


async def test_a_lost_connection_sends_readers_to_the_log(hub: Announcements, store: redis.Redis) -> None:
    async with hub.subscribe("msg_1", limit=10) as heard:
        await heard.confirmed()
        store.client_kill_filter(_type="pubsub")
        while not heard.missed:
            assert await heard.get(5) is None
        heard.missed = False
    async with hub.subscribe("msg_2", limit=10) as again:
        await again.confirmed()
        announce(store, "msg_2", b"2 2 0 0\nx")
        assert await again.get(5)


def test_parse_keeps_line_feeds_of_the_frames() -> None:
    assert parse(b"7 7 1 0\na\n\nb\n\n").chunk.frames == b"a\n\nb\n\n"
