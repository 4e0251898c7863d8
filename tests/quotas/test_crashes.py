"""Somebody dies between any two steps: nothing stays taken, and what is counted is what is recorded."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import redis
from redis.asyncio import Redis

from accounts.callers import Quota
from inference.detokenizer import Vocabulary
from inference.engines.base import StepOutput
from inference.protocol import keys, quotas, scripts
from inference.protocol.opening import first_frame, opening
from inference.protocol.requests import GenerationRequest
from inference.protocol.settings import load
from quotas.admission import admit
from quotas.headers import anthropic_headers
from streaming.eventlog import EventLog
from streaming.lost import LostMessages
from streaming.reaper import Reaper
from tests.inference.tools import MODEL, SETTINGS, Bench, a_request
from tests.quotas.tools import Books, a_caller

CALLER = a_caller(Quota(max_streams=1, otpm=10_000), Quota(budget_tokens=13))
LAST = StepOutput("msg_1", (28120,), "end_of_text")


@pytest.fixture(scope="session")
def vocabulary(model_folder: Path) -> Vocabulary:
    return Vocabulary.load(model_folder)


class Life:
    """One message, step by step; whoever does a step may be dead after it."""

    def __init__(self, store: redis.Redis, vocabulary: Vocabulary) -> None:
        self.store, self.books = store, Books(store)
        self.request: GenerationRequest = a_request(created_at=time.time())
        self.worker = Bench(store, vocabulary)

    async def admit(self, message_id: str = "msg_1") -> None:
        await admit(
            self.run, CALLER, message_id=message_id, input_tokens=3, max_tokens=10, created_at=time.time(),
            lease_ms=quotas.lease_ms(SETTINGS), form=anthropic_headers, note=lambda _: None,
        )  # fmt: skip

    async def open(self) -> None:
        self.store.zadd(keys.LOGS, {"msg_1": time.time() * 1000})
        await self.run(*opening(self.request, SETTINGS, first_frame(self.request)))

    async def enqueue(self) -> None:
        names = (keys.ready(MODEL), keys.payloads(MODEL), keys.wake(MODEL))
        await self.run(scripts.ENQUEUE, names, ("msg_1", self.request.encode(), 0, 10))

    async def claim(self) -> None:
        self.worker.turn()

    async def generate(self) -> None:
        self.worker.turn(StepOutput("msg_1", (19556,), None))

    async def end(self) -> None:
        """Write the last event; it is not accounted for."""
        broker = self.worker.worker._broker
        broker.account = broker.settle = lambda *_: broker.renew([])  # type: ignore[method-assign]  # says nothing
        self.worker.turn(LAST)

    async def account(self) -> None:
        """Write the last event and account for it; it is not settled."""
        self.worker.crash_before_settling(LAST)

    async def settle(self) -> None:
        self.worker.turn(LAST)

    async def run(self, script: str, names: Any, arguments: Any) -> Any:
        return self.store.eval(script, len(names), *names, *arguments)

    def lapse(self) -> None:
        """Let the lease of the reservation run out."""
        leases = quotas.leases("org_1")
        for name in cast(list[bytes], self.store.zrange(leases, 0, -1)):
            self.store.zadd(leases, {name: 0})

    def lease(self) -> float:
        """When the one lease runs out, in seconds."""
        ((_, until),) = cast(
            list[tuple[bytes, float]], self.store.zrange(quotas.leases("org_1"), 0, -1, withscores=True)
        )
        return until / 1000

    def recorded(self) -> int:
        """What the records will say was used: the last account of a message counts."""
        return sum({s.id: s.input_tokens + s.output_tokens for s in self.worker.settlements()}.values())


@pytest.fixture
def life(store: redis.Redis, vocabulary: Vocabulary) -> Life:
    return Life(store, vocabulary)


Step = Callable[[Life], Awaitable[None]]
STEPS: list[Step] = [Life.admit, Life.open, Life.enqueue, Life.claim, Life.generate, Life.end]


async def until(life: Life, last: Step) -> None:
    """Do all steps up to one, the last before the crash."""
    ends: dict[Step, list[Step]] = {Life.account: STEPS[:-1], Life.settle: STEPS[:-1]}
    for step in [*ends[last], last] if last in ends else STEPS[: STEPS.index(last) + 1]:
        await step(life)


@pytest.fixture
async def log(store: redis.Redis, redis_server: str) -> AsyncIterator[EventLog]:
    async with Redis.from_url(redis_server) as client:
        yield EventLog(client, SETTINGS)


async def test_without_a_crash(life: Life) -> None:
    await until(life, Life.settle)
    assert life.books.held() == set()
    assert life.books.spent("org_1")["total"] == life.recorded() == 3 + 2


@pytest.mark.parametrize("step", [Life.admit, Life.open])
async def test_the_gateway_dies_before_it_is_queued(life: Life, step: Step) -> None:
    await until(life, step)
    assert life.books.reserved("org_1")["total"] == 13
    life.lapse()
    await life.admit("another")
    assert life.books.held() == {"another"}


async def test_a_log_without_a_request_is_ended_and_accounted_for(life: Life, log: EventLog) -> None:
    await until(life, Life.open)
    now = time.time() + 60
    reaper = Reaper(log, SETTINGS, gateway="g")
    lost = LostMessages(log._redis, log, reaper, SETTINGS, gateway="g", clock=lambda: now)
    life.store.sadd(keys.MODELS, MODEL)
    await lost.look()
    now += 60
    await lost.look()
    assert life.worker.outcomes == ["error"]
    assert life.books.held() == set()
    assert life.books.spent("org_1")["total"] == life.recorded() == 3


@pytest.mark.parametrize("step", [Life.claim, Life.generate, Life.end, Life.account])
@pytest.mark.parametrize("lapsed", [False, True])
async def test_a_worker_dies_and_another_goes_on(life: Life, step: Step, lapsed: bool) -> None:
    await until(life, step)
    if lapsed:  # the reservation has, too
        life.lapse()
    other = life.worker.another()
    life.worker.lapse()
    other.turn()
    if other.submitted:
        other.turn(LAST)
    assert len(life.worker.settlements()) == 1
    assert life.books.held() == set()
    assert life.books.spent("org_1")["total"] == life.recorded()
    assert life.recorded() == (3 + 1 if step is Life.claim else 3 + 2)


@pytest.mark.parametrize("step", [Life.enqueue, Life.claim, Life.generate, Life.end, Life.account])
async def test_all_workers_die_and_the_reaper_ends_it(life: Life, log: EventLog, step: Step) -> None:
    await until(life, step)
    life.worker.lapse() if step is not Life.enqueue else life.worker.age(seconds=61)
    settings = replace(load({}), model=MODEL, queue_timeout_s=60)
    await Reaper(log, settings, gateway="g").look([MODEL])
    assert len(life.worker.settlements()) == 1
    assert life.books.held() == set()
    assert life.books.spent("org_1")["total"] == life.recorded()


async def test_a_message_that_runs_keeps_its_reservation(life: Life) -> None:
    await until(life, Life.claim)
    life.lapse()
    life.store.zadd(quotas.leases("org_1"), {"msg_1": (time.time() + 1) * 1000})
    life.worker.worker._leases._reservations_due = 0
    life.worker.turn()
    assert life.lease() > time.time() + SETTINGS.queue_timeout_s


async def test_one_that_is_handed_back_may_wait_for_long(life: Life) -> None:
    await until(life, Life.claim)
    life.worker.worker._hand_over()
    assert life.lease() > time.time() + SETTINGS.request_timeout_s


async def test_a_worker_that_was_overtaken_does_not_account_over_its_successor(life: Life) -> None:
    await until(life, Life.generate)
    other = life.worker.another()
    life.worker.lapse()
    other.turn()
    other.turn(StepOutput("msg_1", (28120, 3823), "end_of_text"))
    life.worker.turn(LAST)
    assert life.books.spent("org_1")["total"] == life.recorded() == 3 + 3


async def test_a_full_redis_still_accounts(life: Life) -> None:
    await until(life, Life.generate)
    with life.worker.full():
        life.worker.turn(LAST)
    assert life.books.held() == set()
    assert life.books.spent("org_1")["total"] == 3 + 2
