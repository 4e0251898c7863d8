"""Messages that are in no queue any more."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import redis
from redis.asyncio import Redis

from inference.protocol import keys, scripts
from inference.protocol.reports import Settlement, common_of
from inference.protocol.settings import load
from streaming.eventlog import EventLog
from streaming.lost import YOUNG_S, LostMessages
from streaming.reaper import Reaper
from tests.inference.tools import MODEL, a_request, enqueue, entries_of

SETTINGS = replace(load({}), lease_s=10)
QUEUE = (keys.ready(MODEL), keys.payloads(MODEL), keys.leases(MODEL), keys.attempts(MODEL))


class World:
    """A watch over the logs, with a clock."""

    def __init__(self, store: redis.Redis, client: Redis) -> None:
        self.store, self.now = store, time.time()
        log = EventLog(client, SETTINGS)
        reaper = Reaper(log, SETTINGS, gateway="g")
        self.lost = LostMessages(client, log, reaper, SETTINGS, gateway="g", clock=lambda: self.now)
        store.sadd(keys.MODELS, MODEL)

    def open(self, message_id: str = "msg_1") -> None:
        enqueue(self.store, a_request(message_id))
        self.store.zadd(keys.LOGS, {message_id: self.now * 1000})

    async def pass_time(self, seconds: float) -> None:
        """Let the time pass, with a look every five seconds."""
        for _ in range(int(seconds / 5)):
            self.now += 5
            await self.lost.look()

    def ends(self) -> list[str]:
        rows = entries_of(self.store, keys.log("msg_1"))
        return [json.loads(fields[b"f"].rpartition(b"data: ")[2])["type"] for _, fields in rows][1:]

    def settlements(self) -> list[Settlement]:
        return [Settlement.decode(f[b"r"]) for _, f in entries_of(self.store, keys.settlements(MODEL))]


@pytest.fixture
async def world(store: redis.Redis, redis_server: str) -> AsyncIterator[World]:
    client = Redis.from_url(redis_server)
    yield World(store, client)
    await client.aclose()


async def test_one_that_its_queue_forgot_ends_with_an_error(world: World) -> None:
    world.open()
    world.store.delete(*QUEUE)
    await world.pass_time(30)
    assert world.ends() == ["error"]
    (settlement,) = world.settlements()
    assert (settlement.outcome, settlement.output_tokens, settlement.worker) == ("error", 0, "g")
    assert (settlement.organization, settlement.key, settlement.model) == ("org_1", "key_1", MODEL)
    assert (settlement.created_at, settlement.input_tokens) == (1.0, 3)
    assert not world.store.exists(*QUEUE)


async def test_one_that_was_cancelled_ends_as_its_client_asked(world: World) -> None:
    world.open()
    world.store.delete(*QUEUE)
    world.store.eval(scripts.CANCEL, 1, keys.meta("msg_1"), "client_gone")
    await world.pass_time(30)
    assert world.ends() == ["message_delta", "message_stop"]
    assert [s.outcome for s in world.settlements()] == ["client_gone"]


@pytest.mark.parametrize("claimed", [False, True])
async def test_one_that_waits_or_runs_is_left_alone(world: World, claimed: bool) -> None:
    world.open()
    if claimed:
        world.store.eval(scripts.CLAIM, 5, *QUEUE, keys.wake(MODEL), 1, 10_000)
    await world.pass_time(60)
    assert world.ends() == []
    assert list(world.lost._watched) == ["msg_1"]


async def test_its_worker_has_a_lease_to_make_its_claim_again(world: World) -> None:
    world.open()
    before = [world.store.dump(name) for name in QUEUE[:2]]
    world.store.delete(*QUEUE)
    await world.pass_time(YOUNG_S + 5)
    for name, value in zip(QUEUE[:2], before, strict=True):
        assert value is not None
        world.store.restore(name, 0, value)
    await world.pass_time(60)
    assert world.ends() == []


async def test_one_that_has_ended_is_forgotten(world: World) -> None:
    world.open()
    world.store.delete(*QUEUE)
    world.store.hset(keys.meta("msg_1"), "ended", 1)
    world.open("msg_2")
    world.store.delete(keys.log("msg_2"), keys.meta("msg_2"), *QUEUE)
    await world.pass_time(30)
    assert world.lost._watched == {}
    assert world.settlements() == []


async def test_one_gateway_ends_it(world: World, redis_server: str) -> None:
    client = Redis.from_url(redis_server)
    other = World(world.store, client)
    world.open()
    world.store.delete(*QUEUE)
    for _ in range(6):
        await world.pass_time(5)
        await other.pass_time(5)
    assert len(world.settlements()) == 1
    await client.aclose()


async def test_one_whose_log_is_gone_too_is_accounted_for(world: World) -> None:
    await world.lost.account_for(common_of(a_request()))
    assert [(s.id, s.outcome, s.output_tokens) for s in world.settlements()] == [("msg_1", "error", 0)]


@pytest.mark.parametrize("kept", ["owner", "queue"])
async def test_one_that_expired_or_that_a_worker_will_end_is_not(world: World, kept: str) -> None:
    world.open()
    world.store.delete(keys.log("msg_1"), keys.meta("msg_1"))
    world.store.delete(*(QUEUE if kept == "owner" else [keys.owner("msg_1")]))
    await world.lost.account_for(common_of(a_request()))
    assert world.settlements() == []
