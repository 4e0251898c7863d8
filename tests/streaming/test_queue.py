"""Who gets into a queue that fills up."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import redis
from redis.asyncio import Redis

from common.errors import Overloaded
from inference.protocol import keys
from inference.protocol.outcomes import Priority
from inference.protocol.settings import Settings
from streaming.eventlog import EventLog
from tests.inference.tools import a_request

LIMIT = 20


@pytest.fixture
async def log(store: redis.Redis, settings: Settings) -> AsyncIterator[EventLog]:
    client = Redis.from_url(settings.redis)
    yield EventLog(client, replace(settings, queue_limit=LIMIT))
    await client.aclose()


async def enter(log: EventLog, priority: Priority, number: int = 0) -> None:
    await log.open(a_request(f"{priority}-{number}", priority=priority), retry_ms=2000, read=False)


async def fill(log: EventLog, priority: Priority) -> int:
    """Queue requests until there is no room; return how many got in."""
    for number in range(LIMIT + 1):
        try:
            await enter(log, priority, number)
        except Overloaded:
            return number
    raise AssertionError("the queue has no end")


async def test_batch_work_is_refused_first_and_priority_work_last(log: EventLog, store: redis.Redis) -> None:
    assert await fill(log, "batch") == 10
    assert await fill(log, "standard") == 8
    assert await fill(log, "priority") == 2
    assert store.zcard(keys.ready("m")) == LIMIT


async def test_who_is_refused_leaves_nothing_behind(log: EventLog, store: redis.Redis) -> None:
    await fill(log, "priority")
    with pytest.raises(Overloaded) as refused:
        await enter(log, "standard")

    assert float(refused.value.headers["retry-after"]) > 0
    assert not store.exists(keys.log("standard-0"), keys.meta("standard-0"))


async def test_what_has_ended_stays_when_it_comes_again(log: EventLog, store: redis.Redis) -> None:
    await enter(log, "standard")
    store.delete(keys.ready("m"), keys.payloads("m"))  # it was settled
    store.hset(keys.meta("standard-0"), "ended", 1)
    await fill(log, "priority")
    with pytest.raises(Overloaded):
        await enter(log, "standard")

    assert store.exists(keys.log("standard-0"), keys.meta("standard-0"), keys.owner("standard-0")) == 3


async def test_a_queue_of_one_has_room_for_each_class(store: redis.Redis, settings: Settings) -> None:
    client = Redis.from_url(settings.redis)
    await enter(EventLog(client, replace(settings, queue_limit=1)), "batch")
    await client.aclose()
