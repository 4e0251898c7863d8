"""Workers, gateways and Redis die, stop and come back amid fifty streams: none loses, doubles or alters an event.

`CHAOS_SEEDS=100 pytest tests/chaos` tries more than the few of `make test`.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, cast

import pytest
import redis

from tests.chaos.watching import Watcher, watch_all
from tests.e2e.conftest import Product, a_body, records_of

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

SEEDS = range(int(os.environ.get("CHAOS_SEEDS", "3")))
STREAMS = 50
TOKENS = 120
TPOT_MS = 25
LEASE_S = 1.0
WRITTEN_S = 2.5  # since when a message came, after which Redis has it on its disk
HOLDING = (b":ready", b":payloads", b":leases", b":attempts")
WORKER, GATEWAY, REDIS = "-m inference", "manage.py gateway", "redis-server"


@pytest.fixture(scope="module")
def product() -> Iterator[Product]:
    arguments = ("--engine", "simulated", "--workers", "2", "--gateways", "2")
    environment = {
        "SLUICE_SIM_TPOT_MS": str(TPOT_MS),
        "SLUICE_LEASE_S": str(LEASE_S),
        "SLUICE_DRAIN_S": "1",
        "SLUICE_QUEUE_TIMEOUT_S": "10",  # a reservation that a killed gateway leaves is held no longer than that
        "SLUICE_EVENT_LOG_TTL_S": "60",
    }
    made = Product(arguments, environment).start()
    yield made
    assert made.stop() == 0, made.log[-4000:]


@pytest.fixture(scope="module")
def expected(product: Product) -> dict[str, str]:
    """What each prompt is answered when nothing happens."""
    watchers = watchers_of(product, product.manage("createkey", "calm"), "calm")
    asyncio.run(watch_all(watchers))
    assert {watcher.resumes for watcher in watchers} == {0}
    return {prompt_of(watcher): watcher.text for watcher in watchers}


def watchers_of(product: Product, key: str, name: str) -> list[Watcher]:
    return [
        Watcher(product.url, key, a_body(f"Tell me about {n}.", max_tokens=TOKENS), f"{name}-{n}")
        for n in range(STREAMS)
    ]


def prompt_of(watcher: Watcher) -> str:
    return str(watcher.body["messages"][0]["content"])


Blow = Callable[[Product, random.Random], Awaitable[None]]


def busy_worker(product: Product, chance: random.Random) -> int:
    """Return a worker that has something to lose, where there is one."""
    workers = product.processes(WORKER)
    try:
        with redis.Redis.from_url(f"unix://{product.home}/redis/redis.sock") as store:
            heartbeats = cast(dict[bytes, bytes], store.hgetall("sluice:workers"))
    except redis.RedisError:
        heartbeats = {}
    busy = [int(name.rpartition(b"-")[2]) for name, about in heartbeats.items() if json.loads(about)["running"]]
    return chance.choice([pid for pid in busy if pid in workers] or workers)


async def kill_a_worker(product: Product, chance: random.Random) -> None:
    os.kill(busy_worker(product, chance), signal.SIGKILL)


async def drain_a_worker(product: Product, chance: random.Random) -> None:
    os.kill(busy_worker(product, chance), signal.SIGTERM)


async def stop_a_worker_for_a_while(product: Product, chance: random.Random) -> None:
    """It wakes after another has taken over, and finds itself fenced off."""
    pid = busy_worker(product, chance)
    os.kill(pid, signal.SIGSTOP)
    await asyncio.sleep(LEASE_S * 2)
    os.kill(pid, signal.SIGCONT)


async def stop_a_gateway_for_a_while(product: Product, chance: random.Random) -> None:
    pid = chance.choice(product.processes(GATEWAY))
    os.kill(pid, signal.SIGSTOP)
    await asyncio.sleep(1)
    os.kill(pid, signal.SIGCONT)


async def kill_a_gateway(product: Product, chance: random.Random) -> None:
    os.kill(chance.choice(product.processes(GATEWAY)), signal.SIGKILL)


async def drain_a_gateway(product: Product, chance: random.Random) -> None:
    os.kill(chance.choice(product.processes(GATEWAY)), signal.SIGTERM)


async def kill_redis(product: Product, chance: random.Random) -> None:
    for pid in product.processes(REDIS):
        os.kill(pid, signal.SIGKILL)


async def pause(product: Product, chance: random.Random) -> None:
    await asyncio.sleep(1)


async def stop_redis_for_a_while(product: Product, chance: random.Random) -> None:
    for pid in product.processes(REDIS):
        os.kill(pid, signal.SIGSTOP)
    await asyncio.sleep(LEASE_S * 2)
    for pid in product.processes(REDIS):
        os.kill(pid, signal.SIGCONT)


WORKER_BLOWS: list[Blow] = [kill_a_worker, stop_a_worker_for_a_while, drain_a_worker]
GATEWAY_BLOWS: list[Blow] = [kill_a_gateway, stop_a_gateway_for_a_while, drain_a_gateway]
REDIS_BLOWS: list[Blow] = [kill_redis, stop_redis_for_a_while]


async def strike(product: Product, blows: list[Blow], chance: random.Random) -> float:
    """Deal the blows, spread over the time that the streams take; return after how many seconds the first fell."""
    begun, first = time.monotonic(), 0.0
    for blow in blows:
        await asyncio.sleep(chance.uniform(0.1, TOKENS * TPOT_MS / 1000 / len(blows)))
        first = first or time.monotonic() - begun
        await blow(product, chance)
    return first


def run(product: Product, name: str, blows: list[Blow], chance: random.Random) -> tuple[list[Watcher], str, float]:
    key = product.manage("createkey", name, "--org", name, "--max-streams", str(2 * STREAMS), "--otpm", "10000000")
    watchers = watchers_of(product, key, name)

    async def both() -> float:
        async with asyncio.TaskGroup() as group:
            group.create_task(watch_all(watchers))
            striking = group.create_task(strike(product, blows, chance))
        return striking.result()

    struck_s = asyncio.run(both())
    return watchers, key, struck_s


def left_behind(store: redis.Redis) -> list[Any]:
    """What queues still hold: requests, leases, attempts; and who still has a slot of a quota."""
    held: list[Any] = [name for name in store.scan_iter("sluice:{q:*") if name.endswith(HOLDING)]
    for name in store.scan_iter("sluice:{quota:*}:leases"):
        held += cast(list[Any], store.zrangebyscore(name, time.time() * 1000, "+inf"))
    return held


def wait_until_quiet(product: Product) -> None:
    with redis.Redis.from_url(f"unix://{product.home}/redis/redis.sock") as store:

        def running() -> int:
            heartbeats = map(json.loads, cast(list[bytes], store.hvals("sluice:workers")))
            alive = [about for about in heartbeats if about["seen_at"] > time.time() - 3]
            return sum(int(about["running"]) + int(about["waiting"]) for about in alive)

        deadline = time.monotonic() + 30
        while left_behind(store) or running():
            assert time.monotonic() < deadline, (left_behind(store), running())
            time.sleep(0.1)


def wait_until_ready(product: Product) -> None:
    deadline = time.monotonic() + 30
    while not product.ready() or len(product.processes(GATEWAY)) < 2 or len(product.processes(WORKER)) < 2:
        assert time.monotonic() < deadline, product.log[-3000:]
        time.sleep(0.1)


@pytest.mark.parametrize("seed", SEEDS)
def test_dying_workers_and_gateways_change_nothing(product: Product, expected: dict[str, str], seed: int) -> None:
    chance = random.Random(seed)
    wait_until_ready(product)
    # No message may lose three workers: that would rightly end it.
    blows = [*chance.choices(WORKER_BLOWS, k=2), *chance.choices(GATEWAY_BLOWS, k=chance.randint(0, 2))]
    chance.shuffle(blows)
    told = ", ".join(blow.__name__ for blow in blows)

    watchers, key, _ = run(product, f"seed-{seed}", blows, chance)

    for watcher in watchers:
        assert watcher.replays == 0, told
        assert watcher.end["type"] == "message_delta", (told, watcher.end)
        assert watcher.end["delta"]["stop_reason"] == "max_tokens", (told, watcher.end)
        assert watcher.end["usage"]["output_tokens"] == TOKENS, told
        assert watcher.text == expected[prompt_of(watcher)], told
    wait_until_quiet(product)
    records = records_of(product, key, STREAMS)
    assert sorted(record["id"] for record in records) == sorted(watcher.id for watcher in watchers)
    assert {(record["outcome"], record["output_tokens"]) for record in records} == {("max_tokens", TOKENS)}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_dying_redis_ends_no_stream_in_silence(product: Product, expected: dict[str, str], seed: int) -> None:
    chance = random.Random(1000 + seed)
    wait_until_ready(product)
    blows: list[Blow] = [chance.choice(REDIS_BLOWS)]
    if chance.random() < 0.5:
        blows.insert(chance.randint(0, 1), chance.choice(WORKER_BLOWS))
    told = ", ".join(blow.__name__ for blow in blows)

    watchers, key, struck_s = run(product, f"redis-{seed}", blows, chance)

    for watcher in watchers:
        whole = expected[prompt_of(watcher)]
        if watcher.end["type"] == "message_delta":
            assert watcher.text == whole, told
        else:  # only what came in the last moments before, which Redis had not written to its disk, may be lost
            assert struck_s < WRITTEN_S, (told, watcher.end)
            assert whole.startswith(watcher.text), told
    wait_until_quiet(product)
    recorded = {record["id"] for record in records_of(product, key, STREAMS)}
    assert {watcher.id for watcher in watchers} <= recorded, told


def test_a_worker_that_wakes_too_late_is_fenced_off(product: Product, expected: dict[str, str]) -> None:
    wait_until_ready(product)
    before = product.log.count("fenced off")
    blows: list[Blow] = [pause, stop_a_worker_for_a_while]  # once a heartbeat has told which worker is busy
    watchers, key, _ = run(product, "fence", blows, random.Random(1))
    assert {watcher.text == expected[prompt_of(watcher)] for watcher in watchers} == {True}
    assert 2 in {record["attempts"] for record in records_of(product, key, STREAMS)}
    assert product.log.count("fenced off") > before


def test_the_watchers_notice(expected: dict[str, Any]) -> None:
    """See that a watcher would tell of an event that came twice."""
    watcher = Watcher("", "", {}, "a")
    watcher._take({"id": "1", "data": '{"type": "message_start"}'})
    with pytest.raises(AssertionError, match="3 after 1"):
        watcher._take({"id": "3", "data": '{"type": "ping"}'})
