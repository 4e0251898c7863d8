"""Ending what no worker will."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, cast

import pytest
import redis
from redis.asyncio import Redis

from inference.protocol import keys, scripts
from inference.protocol.events import MessageEvents
from inference.protocol.reports import Settlement
from inference.protocol.settings import load
from streaming.eventlog import EventLog
from streaming.reaper import Reaper
from tests.inference.tools import MODEL, a_request, enqueue, entries_of

SETTINGS = replace(load({}), queue_timeout_s=60, request_timeout_s=600)
QUEUE = (keys.ready(MODEL), keys.payloads(MODEL), keys.leases(MODEL), keys.attempts(MODEL))


@pytest.fixture
async def reaper(store: redis.Redis, redis_server: str) -> AsyncIterator[Reaper]:
    client = Redis.from_url(redis_server)
    yield Reaper(EventLog(client, SETTINGS), SETTINGS, gateway="g")
    await client.aclose()


def age(store: redis.Redis, seconds: float, message_id: str = "msg_1") -> None:
    """Make a request look as if it came that much earlier."""
    came, _, blob = cast(bytes, store.hget(keys.payloads(MODEL), message_id)).partition(b"|")
    store.hset(keys.payloads(MODEL), message_id, b"%d|%s" % (int(came) - int(seconds * 1000), blob))


def claim(store: redis.Redis) -> int:
    """Claim as a worker does, and write the beginning of a text; return the pen."""
    pen = int(store.eval(scripts.CLAIM, 5, *QUEUE, keys.wake(MODEL), 1, 10_000)[2])
    store.eval(scripts.TAKE, 1, keys.meta("msg_1"), pen, 0)
    events = MessageEvents(last_id=1)
    frames = [events.start_text(), "", events.text("Hey"), "7,8"]
    arguments: tuple[Any, ...] = (pen, keys.channel("msg_1"), 2, 1, "", 60, *frames)
    store.eval(scripts.APPEND, 3, keys.log("msg_1"), keys.meta("msg_1"), keys.owner("msg_1"), *arguments)
    return pen


def lapse(store: redis.Redis, seconds: float) -> None:
    now = store.time()[0]
    store.zadd(keys.leases(MODEL), {"msg_1": (now - seconds) * 1000})


def events_of(store: redis.Redis) -> list[dict[str, Any]]:
    return [json.loads(f[b"f"].rpartition(b"data: ")[2]) for _, f in entries_of(store, keys.log("msg_1"))]


def settlements_of(store: redis.Redis) -> list[Settlement]:
    return [Settlement.decode(f[b"r"]) for _, f in entries_of(store, keys.settlements(MODEL))]


async def test_what_waited_too_long_ends_with_a_timeout(reaper: Reaper, store: redis.Redis) -> None:
    enqueue(store, a_request())
    age(store, 61)
    await reaper.look([MODEL])
    await reaper.look([MODEL])
    assert [e["type"] for e in events_of(store)] == ["message_start", "error"]
    assert events_of(store)[-1]["error"]["type"] == "timeout_error"
    (settlement,) = settlements_of(store)
    assert (settlement.outcome, settlement.output_tokens, settlement.worker) == ("timeout", 0, "g")
    assert settlement.queue_ms >= 61_000
    assert not store.exists(*QUEUE)


async def test_what_may_still_wait_is_left_alone(reaper: Reaper, store: redis.Redis) -> None:
    enqueue(store, a_request())
    age(store, 59)
    await reaper.look([MODEL])
    assert store.zcard(keys.ready(MODEL)) == 1


async def test_a_message_whose_workers_are_all_gone_is_closed(reaper: Reaper, store: redis.Redis) -> None:
    enqueue(store, a_request())
    claim(store)
    lapse(store, 61)
    await reaper.look([MODEL])
    assert [e["type"] for e in events_of(store)][-2:] == ["content_block_stop", "error"]
    (settlement,) = settlements_of(store)
    assert (settlement.outcome, settlement.output_tokens, settlement.attempts) == ("worker_lost", 2, 2)


@pytest.mark.parametrize("lapsed_s", [-5, 5])
async def test_a_lease_that_another_worker_may_take_is_left_alone(
    reaper: Reaper, store: redis.Redis, lapsed_s: float
) -> None:
    enqueue(store, a_request())
    claim(store)
    lapse(store, lapsed_s)
    await reaper.look([MODEL])
    assert settlements_of(store) == []


async def test_one_handed_back_has_until_the_request_timeout(reaper: Reaper, store: redis.Redis) -> None:
    enqueue(store, a_request())
    pen = claim(store)
    store.eval(scripts.RELEASE, 5, *QUEUE, keys.wake(MODEL), "msg_1", pen)
    age(store, 120)
    await reaper.look([MODEL])
    assert settlements_of(store) == []
    age(store, 500)
    await reaper.look([MODEL])
    assert [s.outcome for s in settlements_of(store)] == ["worker_lost"]


async def test_a_cancelled_one_is_accounted_as_such(reaper: Reaper, store: redis.Redis) -> None:
    enqueue(store, a_request())
    store.eval(scripts.CANCEL, 1, keys.meta("msg_1"), "client_gone")
    age(store, 61)
    await reaper.look([MODEL])
    assert [s.outcome for s in settlements_of(store)] == ["client_gone"]
    assert events_of(store)[-2]["delta"]["stop_reason"] == "cancelled"


async def test_a_message_whose_log_is_gone_is_only_settled(reaper: Reaper, store: redis.Redis) -> None:
    enqueue(store, a_request())
    store.delete(keys.log("msg_1"), keys.meta("msg_1"))
    age(store, 61)
    await reaper.look([MODEL])
    assert [s.outcome for s in settlements_of(store)] == ["timeout"]
    assert not store.exists(keys.log("msg_1"))


@pytest.mark.parametrize("change", [{"version": 99}, {"prompt_ids": None}])
async def test_one_whose_payload_cannot_be_read_is_ended_by_what_its_log_says(
    reaper: Reaper, store: redis.Redis, change: dict[str, Any]
) -> None:
    enqueue(store, a_request())
    blob = cast(bytes, store.hget(keys.payloads(MODEL), "msg_1")).partition(b"|")[2]
    now_ms = store.time()[0] * 1000
    store.hset(keys.payloads(MODEL), "msg_1", f"{now_ms - 61_000}|{json.dumps(json.loads(blob) | change)}")
    await reaper.look([MODEL])
    assert events_of(store)[-1]["error"]["type"] == "timeout_error"
    (settlement,) = settlements_of(store)
    assert (settlement.outcome, settlement.organization, settlement.input_tokens) == ("timeout", "org_1", 3)
    assert not store.exists(*QUEUE)
