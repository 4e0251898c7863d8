"""Each script on a Redis Cluster, where all of its keys have to be in one slot."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
import redis
from redis.asyncio.cluster import RedisCluster

from accounts.callers import Caller, Quota
from common.errors import RateLimited
from inference.broker import Broker
from inference.claims import Claim, Taken
from inference.protocol import keys, quotas, scripts
from inference.protocol.metrics import LIMITED, Tally
from inference.protocol.minutes import ANSWERS, GOOD, MinuteTally
from inference.protocol.opening import first_frame, opening
from inference.protocol.quotas import MINUTE_S, Period, accounting, renewing
from inference.protocol.reports import common_of
from inference.room import Room
from inference.transcript import Transcript
from quotas.admission import admit, give_back
from quotas.headers import anthropic_headers
from quotas.scripts import CORRECT, SEED
from streaming.eventlog import EventLog
from tests.inference.tools import MODEL, SETTINGS, a_request
from tests.quotas.tools import LEASE_MS, a_caller, a_settlement

QUEUE = (keys.ready(MODEL), keys.payloads(MODEL), keys.leases(MODEL), keys.attempts(MODEL))
ROOM = Room(10, 1 << 40, True)


class Life:
    """One message on a cluster, by the calls that gateway and worker make."""

    def __init__(self, cluster: redis.RedisCluster, message_id: str) -> None:
        self.cluster, self.id = cluster, message_id
        self.request = a_request(message_id, created_at=time.time())
        self.broker = Broker(redis.Redis(), model=MODEL, lease_s=10, log_ttl_s=60)  # makes calls, and connects to none

    def ask(self, script: str, names: Sequence[str], arguments: Sequence[Any]) -> Any:
        return self.cluster.eval(script, len(names), *names, *arguments)

    async def run(self, script: str, names: Sequence[str], arguments: Sequence[Any]) -> Any:
        return self.ask(script, names, arguments)

    def enqueue(self) -> None:
        assert self.ask(*opening(self.request, SETTINGS, first_frame(self.request))) == 1
        names = (keys.ready(MODEL), keys.payloads(MODEL), keys.wake(MODEL))
        self.ask(scripts.ENQUEUE, names, (self.id, self.request.encode(), 0, 10))

    def claim(self) -> Transcript:
        (claim,) = self.broker.claims_of(self.ask(*self.broker.claim(ROOM)))
        assert self.ask(scripts.TAKE, (keys.meta(self.id),), (claim.pen, 0)) is not None
        return self.transcript(claim)

    def transcript(self, claim: Claim) -> Transcript:
        return Transcript(claim, Taken(waited_ms=0.0))


@pytest.fixture(params=["msg_1", "msg_2", "msg_3"])
def life(cluster: redis.RedisCluster, request: pytest.FixtureRequest) -> Life:
    return Life(cluster, request.param)


@pytest.fixture
async def log(cluster: redis.RedisCluster, cluster_url: str) -> AsyncIterator[EventLog]:
    async with RedisCluster.from_url(cluster_url, max_connections=200) as client:
        yield EventLog(client, SETTINGS)  # type: ignore[arg-type]  # it has what the log asks of a client here


def test_what_belongs_together_is_spread_over_the_nodes(cluster: redis.RedisCluster) -> None:
    names = [keys.log(f"msg_{i}") for i in range(1, 4)] + [keys.ready(MODEL), quotas.spent("org_1")]
    nodes = {cluster.get_node_from_key(name) for name in names}  # type: ignore[no-untyped-call]  # redis-py's gap
    assert len(nodes) == 3


def test_a_message_is_queued_written_and_settled(life: Life) -> None:
    life.enqueue()
    transcript = life.claim()
    broker, pen = life.broker, transcript.pen
    assert life.ask(*broker.renew([(life.id, pen)])) == []
    assert life.ask(*broker.append(transcript, transcript.take())) == b""
    assert life.ask(*broker.reclaim(transcript, life.request.encode())) == 1
    assert life.ask(*broker.release(life.id, pen)) == 1
    transcript = life.claim()
    transcript.fail("error", kind="api_error", message="On purpose.")
    assert life.ask(*broker.append(transcript, transcript.take())) == b""
    settlement = transcript.settlement(common_of(life.request), "w")
    assert life.ask(*broker.account(settlement, transcript.pen)) == 1
    assert life.ask(*broker.settle(settlement, transcript.pen)) == 1
    assert life.cluster.exists(*QUEUE) == 0
    assert life.cluster.hget(quotas.spent("org_1"), "key_1|total") == b"3"


def test_the_reaper_finds_what_nobody_ends(life: Life) -> None:
    life.enqueue()
    (name, *_) = life.ask(scripts.CLAIM_OVERDUE, QUEUE, (-1, -1, 10_000, 10))
    assert name.decode() == life.id
    assert life.ask(scripts.CLAIM_LOST, QUEUE[1:], ("msg_lost", 10_000)) > 0


def test_heartbeats_and_counts(life: Life) -> None:
    tally = Tally()
    tally.count(LIMITED, "key", "rpm", "enforced")
    call = tally.call("p")
    assert call is not None
    assert life.ask(*call) == 1
    assert life.ask(scripts.BEAT, (keys.WORKERS,), ("w", '{"a":1}')) == 1


def test_counts_of_several_minutes(life: Life) -> None:
    tally, minute = MinuteTally(), int(time.time()) // 60
    for ago_s in (0, 60):
        tally.of("m", "o", at=minute * 60 - ago_s).add(ANSWERS, GOOD)
    call = tally.call("p")
    assert call is not None
    assert life.ask(*call) == 0
    assert life.ask(scripts.STORED, (keys.MINUTES_CHANGED, keys.minute(minute)), (minute, 1, 60)) == 1


async def test_readers_come_and_go(life: Life, log: EventLog) -> None:
    life.enqueue()
    joined = await log.join(life.id, "org_1")
    assert (joined.ended, joined.length) == (False, 1)
    assert await log.run(scripts.KEEP, (keys.meta(life.id),), (1000,)) == 1
    assert (await log.read(life.id, after=0, count=10)) is not None
    assert await log.cancel(life.id, "cancelled")
    assert await log.leave(life.id, cancel=None)


async def admitted(life: Life, caller: Caller, message_id: str) -> bool:
    try:
        await admit(
            life.run, caller, message_id=message_id, input_tokens=10, max_tokens=40, created_at=time.time(),
            lease_ms=LEASE_MS, form=anthropic_headers, note=lambda _: None,
        )  # fmt: skip
    except RateLimited:
        return False
    return True


async def test_quotas(life: Life) -> None:
    caller = a_caller(Quota(rpm=100, otpm=1000, max_streams=2), Quota(budget_tokens=100))
    assert [await admitted(life, caller, name) for name in "abc"] == [True, True, False]
    life.ask(*renewing("org_1", ["a", "b"], LEASE_MS))
    await give_back(life.run, "org_1", "a")
    assert life.ask(*accounting(a_settlement("b", input_tokens=10, output_tokens=5), pen=1)) == 1
    assert await admitted(life, caller, "d")
    period = Period.of(time.time())
    names = (quotas.spent("org_1"), quotas.minute("org_1", period.minute))
    assert life.ask(CORRECT, names, (period.day, period.month, MINUTE_S, "key_1", 20)) == [b"key_1", 20]
    assert life.ask(SEED, names[:1], (period.minute, "key_1|total", 5)) == 1
    assert life.cluster.hget(quotas.spent("org_1"), "key_1|total") == b"40"


async def test_many_gateways_at_once_never_pass_a_limit(cluster: redis.RedisCluster, log: EventLog) -> None:
    life = Life(cluster, "msg_1")
    life.run = log.run  # type: ignore[method-assign]  # which asks without blocking
    caller = a_caller(organization=Quota(budget_tokens=1000))
    assert sum(await asyncio.gather(*(admitted(life, caller, f"msg_{i}") for i in range(200)))) == 20
