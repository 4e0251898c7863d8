"""Messages that may wait for long, and whose answers wait for whoever asked."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import cast

import pytest
import redis
from redis.asyncio import Redis

from inference.protocol import keys, scripts
from inference.protocol.requests import GenerationRequest
from inference.protocol.settings import load
from streaming.eventlog import EventLog
from streaming.janitor import Janitor
from streaming.reaper import Reaper
from tests.inference.tools import MODEL, a_request, enqueue
from tests.streaming.test_reaper import age, claim, events_of, lapse, settlements_of

SETTINGS = replace(load({}), queue_timeout_s=60, request_timeout_s=600)
DAY_S = 86_400


@pytest.fixture
async def reaper(store: redis.Redis, redis_server: str) -> AsyncIterator[Reaper]:
    client = Redis.from_url(redis_server)
    yield Reaper(EventLog(client, SETTINGS), SETTINGS, gateway="g")
    await client.aclose()


def a_patient_request(message_id: str = "msg_1") -> GenerationRequest:
    return a_request(message_id, patience_s=DAY_S)


def end(store: redis.Redis, pen: int) -> None:
    names = (keys.log("msg_1"), keys.meta("msg_1"), keys.owner("msg_1"))
    store.eval(scripts.APPEND, 3, *names, pen, keys.channel("msg_1"), 4, 0, "end_turn", 600, "frame", "")


async def test_it_works(reaper: Reaper, store: redis.Redis) -> None:
    enqueue(store, a_patient_request())
    age(store, DAY_S - 60)
    await reaper.look([MODEL])
    assert settlements_of(store) == []
    age(store, 120)
    await reaper.look([MODEL])
    assert [s.outcome for s in settlements_of(store)] == ["timeout"]


async def test_its_words_do_not_make_a_request_patient(reaper: Reaper, store: redis.Redis) -> None:
    enqueue(store, a_request(texts=('"patience_s":99999', '{"patience_s":99999}')))
    age(store, 61)
    await reaper.look([MODEL])
    assert [s.outcome for s in settlements_of(store)] == ["timeout"]


async def test_it_waits_for_a_worker_after_one_was_lost(reaper: Reaper, store: redis.Redis) -> None:
    enqueue(store, a_patient_request())
    claim(store)
    lapse(store, 600)
    await reaper.look([MODEL])
    assert settlements_of(store) == []


async def test_those_behind_patient_ones_are_ended_all_the_same(
    reaper: Reaper, store: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streaming.reaper.AT_ONCE", 3)
    for number in range(10):
        enqueue(store, a_patient_request(f"msg_p{number}"), head_start_ms=1000)
        age(store, 100, f"msg_p{number}")
    enqueue(store, a_request())
    age(store, 61)
    await reaper.look([MODEL])
    assert [s.id for s in settlements_of(store)] == ["msg_1"]
    assert store.zcard(keys.ready(MODEL)) == 10


def test_its_answer_waits_for_as_long(store: redis.Redis) -> None:
    enqueue(store, a_patient_request())
    end(store, claim(store))
    assert DAY_S - 5 < store.ttl(keys.log("msg_1")) <= DAY_S
    for _ in range(2):
        store.eval(scripts.FETCHED, 2, keys.log("msg_1"), keys.meta("msg_1"), 600)
        assert all(595 < store.ttl(name) <= 600 for name in (keys.log("msg_1"), keys.meta("msg_1")))


def test_a_reader_that_goes_does_not_end_it(store: redis.Redis) -> None:
    enqueue(store, a_patient_request())
    store.eval(scripts.JOIN, 2, keys.meta("msg_1"), keys.owner("msg_1"), "org_1", -10_000)
    store.eval(scripts.LEAVE, 1, keys.meta("msg_1"), -10_000, "")
    pen = claim(store)
    names = (keys.log("msg_1"), keys.meta("msg_1"), keys.owner("msg_1"))
    assert store.eval(scripts.APPEND, 3, *names, pen, keys.channel("msg_1"), 4, 0, "", 600) == b""
    assert cast(list[bytes], store.eval(scripts.TAKE, 1, keys.meta("msg_1"), pen + 1, 0))[1] == b""


async def test_one_that_a_worker_has_is_left_to_it(reaper: Reaper, store: redis.Redis) -> None:
    enqueue(store, a_patient_request())
    claim(store)
    store.eval(scripts.CANCEL, 1, keys.meta("msg_1"), "cancelled")
    await reaper.end_idle("msg_1", MODEL)
    assert settlements_of(store) == []
    lapse(store, SETTINGS.lease_s + 1)
    await reaper.end_idle("msg_1", MODEL)
    assert [s.outcome for s in settlements_of(store)] == ["cancelled"]
    assert events_of(store)[-2]["delta"]["stop_reason"] == "cancelled"


async def test_one_that_is_in_no_queue_is_left_alone(reaper: Reaper, store: redis.Redis) -> None:
    await reaper.end_idle("msg_1", MODEL)
    assert settlements_of(store) == []


async def test_an_answer_that_waits_is_the_last_to_make_room(store: redis.Redis, redis_server: str) -> None:
    for name, request in {"msg_1": a_patient_request(), "msg_2": a_request("msg_2")}.items():
        enqueue(store, request)
        store.hset(keys.meta(name), mapping={"ended": 1, "bytes": 600})
        store.zadd(keys.LOGS, {name: 1 if name == "msg_1" else 2})
    client = Redis.from_url(redis_server)
    await Janitor(client, max_bytes=1000).look()
    await client.aclose()
    assert (store.exists(keys.meta("msg_1")), store.exists(keys.meta("msg_2"))) == (1, 0)
