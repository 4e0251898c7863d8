"""The scripts against a model, whatever comes in whatever order; and many at once on the last of a budget."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from fractions import Fraction
from typing import Any, cast

import pytest
import redis
from hypothesis import settings, strategies
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from redis.asyncio import BlockingConnectionPool, Redis

from accounts.callers import Caller, Quota
from common.errors import RateLimited
from inference.protocol.quotas import Period, accounting
from quotas.admission import Run, admit
from quotas.headers import anthropic_headers
from tests.quotas.model import Model, limits_of, periods
from tests.quotas.tools import LEASE_MS, START, Books, a_caller, a_settlement

numbers = strategies.integers
limits = strategies.none() | numbers(1, 60)
quotas = strategies.builds(
    Quota,
    rpm=strategies.none() | numbers(1, 4),
    itpm=limits,
    otpm=limits,
    max_streams=strategies.none() | numbers(1, 4),
    budget_tokens_day=strategies.none() | numbers(1, 150),
    budget_tokens_month=strategies.none() | numbers(1, 200),
    budget_tokens=strategies.none() | numbers(1, 300),
    shadow=strategies.booleans(),
)
messages = strategies.sampled_from([f"msg_{i}" for i in range(6)])
keys = strategies.sampled_from(["key_1", "key_2"])
tokens = numbers(0, 30)


def at_once(work: Coroutine[Any, Any, Any]) -> None:
    """Run what has nothing to wait for: an event loop for each step would take most of the time."""
    with pytest.raises(StopIteration):
        work.send(None)


class Machine(RuleBasedStateMachine):
    """Two keys of an organisation; each message has one key and the time at which it came."""

    def __init__(self, store: redis.Redis) -> None:
        super().__init__()
        store.flushall()
        self.books = Books(store)
        self.model = Model(now_ms=round(START * 1000))
        self.came: dict[str, tuple[str, float]] = {}

    @initialize(organization=quotas, key_1=quotas, key_2=quotas)
    def limit(self, organization: Quota, key_1: Quota, key_2: Quota) -> None:
        self.organization, self.key = organization, {"key_1": key_1, "key_2": key_2}

    @rule(message=messages, key=keys, input=tokens, output=tokens)
    def admit(self, message: str, key: str, input: int, output: int) -> None:
        key, _ = self.came.setdefault(message, (key, self.books.now))
        period = Period.of(self.books.now)
        caller = a_caller(self.key[key], self.organization, name=key)
        subjects = {key: self.key[key], "org_1": self.organization}
        limited = {name: quota for name, quota in subjects.items() if any(limits_of(quota).values())}
        expected = not limited or self.model.admit(message, limited, input, output, period, LEASE_MS)
        self.books.shown = []
        admission = self.books.admit(caller, message, input_tokens=input, max_tokens=output)
        try:
            at_once(admission)
        except RateLimited:
            assert not expected
        else:
            assert expected
        for standing in self.books.shown:
            name = key if standing.level == "key" else "org_1"
            settled, reserved = self.model.standing(name, standing.name, standing.limit, period)
            unit = 60_000 if standing.is_rate else 1
            assert Fraction(standing.settled, unit) == settled, standing
            assert standing.reserved == reserved, standing

    @rule(message=messages, key=keys, input=tokens, output=tokens, pen=numbers(1, 3))
    def account(self, message: str, key: str, input: int, output: int, pen: int) -> None:
        key, came = self.came.setdefault(message, (key, self.books.now))
        done = self.books.account(
            message, input_tokens=input, output_tokens=output, pen=pen, key=key, created_at=came
        )  # fmt: skip
        assert done == self.model.account(message, [key, "org_1"], input, output, pen, Period.of(came))

    @rule(message=messages)
    def give_back(self, message: str) -> None:
        at_once(self.books.give_back(message))
        self.model.give_back(message)

    @rule(message=messages)
    def renew(self, message: str) -> None:
        self.books.renew(message)
        self.model.renew(message, LEASE_MS)

    @rule(milliseconds=numbers(1, 100_000) | strategies.just(600_000))
    def wait(self, milliseconds: int) -> None:
        self.model.now_ms += milliseconds
        self.books.now = self.model.now_ms / 1000

    @invariant()
    def agrees(self) -> None:
        assert self.books.held() == self.model.reservations.keys()
        for name in ("key_1", "key_2", "org_1"):
            spent = {what: count for (whose, what), count in self.model.spent.items() if whose == name and count}
            assert {what: count for what, count in self.books.spent(name).items() if count} == spent
            held = [r for r in self.model.reservations.values() if name in r.subjects]
            sums = {"streams": len(held), "output": sum(r.output for r in held)}
            for reservation in held:
                for what in periods(reservation.period):
                    sums[what] = sums.get(what, 0) + reservation.input + reservation.output
            assert self.books.reserved(name) == {what: count for what, count in sums.items() if count}


def test_the_scripts_do_what_the_model_does(store: redis.Redis, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("ERROR", "quotas.admission")
    machine = cast(type[Machine], lambda: Machine(store))
    run_state_machine_as_test(machine, settings=settings(max_examples=200, stateful_step_count=30, deadline=None))


def runner(client: Redis) -> Run:
    async def run(script: str, names: Sequence[str], arguments: Sequence[Any]) -> Any:
        return await client.eval(script, len(names), *names, *arguments)

    return run


async def admitted(run: Run, caller: Caller, message_id: str, max_tokens: int) -> bool:
    try:
        await admit(
            run, caller, message_id=message_id, input_tokens=1, max_tokens=max_tokens, created_at=START,
            lease_ms=LEASE_MS, form=anthropic_headers, note=lambda _: None,
        )  # fmt: skip
    except RateLimited:
        return False
    return True


@pytest.mark.parametrize("quota", [Quota(budget_tokens=1000), Quota(max_streams=20), Quota(rpm=20), Quota(otpm=980)])
async def test_two_hundred_at_once_never_pass_a_limit(store: redis.Redis, redis_server: str, quota: Quota) -> None:
    pool = BlockingConnectionPool.from_url(redis_server, max_connections=50)
    async with Redis(connection_pool=pool) as client:
        run = runner(client)
        caller = a_caller(organization=quota)
        found = await asyncio.gather(*(admitted(run, caller, f"msg_{i}", 49) for i in range(200)))
        assert sum(found) == 20
        await pool.disconnect()


async def test_the_last_tokens_are_given_out_again_until_they_are_spent(store: redis.Redis, redis_server: str) -> None:
    """Each takes 50 at most and uses 20: the budget is used to the last reservation that fits, and never passed."""
    pool = BlockingConnectionPool.from_url(redis_server, max_connections=50)
    async with Redis(connection_pool=pool) as client:
        run, caller, spent = runner(client), a_caller(Quota(budget_tokens=1000)), 0

        async def one(name: str) -> None:
            nonlocal spent
            if await admitted(run, caller, name, 49):
                spent += 20
                settlement = a_settlement(name, input_tokens=1, output_tokens=19)
                await asyncio.gather(*(run(*accounting(settlement, pen=1)) for _ in range(2)))

        for round_ in range(5):
            await asyncio.gather(*(one(f"msg_{round_}_{i}") for i in range(200)))
        await pool.disconnect()
    assert 950 < spent <= 1000
    assert Books(store).spent()["total"] == spent
    assert Books(store).held() == set()
