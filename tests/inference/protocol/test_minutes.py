"""What is counted by the minute, and added up in Redis."""

from __future__ import annotations

import json
import logging
import time
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
import redis

from inference.protocol import keys
from inference.protocol.minutes import (
    ANSWERS,
    AT_ONCE,
    GOOD,
    LATE_S,
    STAGES,
    STAGES_US,
    STORED_S,
    TTFT,
    WAITING_S,
    MinuteTally,
    read,
)
from inference.protocol.scripts import STORED
from inference.protocol.sketches import index_of


@dataclass
class Clock:
    now: float = field(default_factory=lambda: float(int(time.time())))  # Redis has its own: an hour ago is too late

    def __call__(self) -> float:
        return self.now

    @property
    def minute(self) -> int:
        return int(self.now) // 60


@pytest.fixture
def clock() -> Clock:
    return Clock()


def send(store: redis.Redis, tally: MinuteTally, process: str = "a") -> int:
    call = tally.call(process)
    assert call is not None
    script, names, arguments = call
    return int(store.eval(script, len(names), *names, *arguments))


def in_redis(store: redis.Redis, minute: int) -> dict[tuple[str, str], Any]:
    fields = cast(dict[bytes, bytes], store.hgetall(keys.minute(minute)))
    return {(model, organization): json.loads(sums) for model, organization, sums in read(fields)}


def test_it_works(store: redis.Redis, clock: Clock) -> None:
    for process in ("a", "b"):
        tally = MinuteTally(clock)
        counts = tally.of("m|odd", "org_1")
        counts.observe(TTFT, [0.1, 0.1, 0.5])
        counts.add(ANSWERS, GOOD)
        counts.stage("queue", 5.0)
        tally.of("", "").add(ANSWERS, "bad:api_error", 3)
        assert send(store, tally, process) == 0
        tally.added(0)
        assert tally.call(process) is None

    assert in_redis(store, clock.minute) == {
        ("m|odd", "org_1"): {
            TTFT: {str(index_of(0.1)): 4, str(index_of(0.5)): 2},
            ANSWERS: {GOOD: 2},
            STAGES: {"queue": 2},
            STAGES_US: {"queue": 10_000},
        },
        ("", ""): {ANSWERS: {"bad:api_error": 6}},
    }
    assert store.hgetall(keys.MINUTES_CHANGED) == {str(clock.minute).encode(): b"2"}
    assert WAITING_S - 60 < store.ttl(keys.minute(clock.minute)) <= WAITING_S


def test_a_batch_whose_reply_was_lost_counts_once(store: redis.Redis, clock: Clock) -> None:
    tally = MinuteTally(clock)
    tally.of("m", "o").add(ANSWERS, GOOD)
    send(store, tally)
    tally.of("m", "o").add(ANSWERS, GOOD)
    send(store, tally)
    assert in_redis(store, clock.minute) == {("m", "o"): {ANSWERS: {GOOD: 1}}}, "the same batch again"
    tally.added(0)
    send(store, tally)
    assert in_redis(store, clock.minute) == {("m", "o"): {ANSWERS: {GOOD: 2}}}


def test_sums_of_microseconds_stay_exact(store: redis.Redis, clock: Clock) -> None:
    tally, hour_ms = MinuteTally(clock), 3_600_000
    for _ in range(2):
        for _ in range(10_000):
            tally.of("m", "o").stage("queue", hour_ms + 0.001)
        send(store, tally)
        tally.added(0)
    assert in_redis(store, clock.minute)["m", "o"][STAGES_US] == {"queue": 20_000 * (hour_ms * 1000 + 1)}


def test_what_is_of_another_time_counts_there(store: redis.Redis, clock: Clock) -> None:
    tally = MinuteTally(clock)
    for at in (clock.now - 60, clock.now + 600, 0.0):
        tally.of("m", "o", at=at).add(ANSWERS, GOOD)
    send(store, tally)
    found = {int(minute) for minute in cast(dict[bytes, bytes], store.hgetall(keys.MINUTES_CHANGED))}
    assert found == {clock.minute - 1, clock.minute, clock.minute - 59}, (
        "the future is now, and long ago is an hour ago"
    )


def test_many_go_in_several_batches(store: redis.Redis, clock: Clock) -> None:
    tally = MinuteTally(clock)
    for number in range(AT_ONCE + 1):
        tally.of("m", f"o{number}").add(ANSWERS, GOOD)
    for _ in range(2):
        send(store, tally)
        tally.added(0)
    assert tally.call("a") is None
    assert len(in_redis(store, clock.minute)) == AT_ONCE + 1


def test_a_process_without_redis_keeps_an_hour(caplog: pytest.LogCaptureFixture, clock: Clock) -> None:
    tally = MinuteTally(clock)
    with caplog.at_level(logging.WARNING):
        for _ in range(61):
            tally.of("m", "o").add(ANSWERS, GOOD)
            clock.now += 60
    assert len(tally._counts) == 60
    assert "the counts of 1 minutes are lost" in caplog.text


def test_what_comes_over_an_hour_late_is_left_out(store: redis.Redis, caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock(time.time() - LATE_S - 120)
    tally = MinuteTally(clock)
    tally.of("m", "o").add(ANSWERS, GOOD)
    late = send(store, tally)
    assert late == 1
    assert not store.exists(keys.MINUTES_CHANGED)
    with caplog.at_level(logging.WARNING):
        tally.added(late)
    assert "left out" in caplog.text


def test_what_is_stored_is_changed_no_more_until_more_comes(store: redis.Redis, clock: Clock) -> None:
    tally = MinuteTally(clock)
    tally.of("m", "o").add(ANSWERS, GOOD)
    send(store, tally)
    names = (keys.MINUTES_CHANGED, keys.minute(clock.minute))

    assert store.eval(STORED, 2, *names, clock.minute, 7, STORED_S) == 0
    assert store.hexists(keys.MINUTES_CHANGED, str(clock.minute))
    assert store.eval(STORED, 2, *names, clock.minute, 1, STORED_S) == 1
    assert not store.exists(keys.MINUTES_CHANGED)
    assert 0 < store.ttl(keys.minute(clock.minute)) <= STORED_S
