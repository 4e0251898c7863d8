"""What is remembered of callers, and for how long."""

from __future__ import annotations

import pytest

from accounts import cache
from accounts.cache import CHECK_S, FRESH_S, STALE_S, UNKNOWN_S, Callers, Known
from accounts.callers import Caller

ALICE = Caller("key_1", "org_1", frozenset({"inference"}))
BOB = Caller("key_2", "org_1", frozenset({"inference"}))
CHARLIE = Caller("key_3", "org_2", frozenset({"inference"}))


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def callers(clock: Clock) -> Callers:
    callers = Callers(clock)
    for name, caller in (("alice", ALICE), ("bob", BOB), ("charlie", CHARLIE)):
        callers.learn(name, caller, since=callers.moment())
    return callers


def look(callers: Callers, name: str = "alice") -> Known:
    known = callers.look(name)
    assert known is not None
    return known


def test_it_works(callers: Callers, clock: Clock) -> None:
    assert look(callers).caller == ALICE
    assert callers.is_fresh(look(callers))
    clock.now += 1.01 * FRESH_S
    assert not callers.is_fresh(look(callers)), "nobody heard of changes since"
    assert callers.is_usable(look(callers))
    clock.now += STALE_S
    assert not callers.is_usable(look(callers))


def test_while_changes_are_heard_of_it_stays_fresh(callers: Callers, clock: Clock) -> None:
    clock.now += STALE_S + 1
    callers.heard()
    assert callers.is_fresh(look(callers))
    assert callers.is_usable(look(callers))
    assert callers.is_due(look(callers)), "and is looked at again all the same"
    clock.now += 1.01 * FRESH_S
    assert not callers.is_fresh(look(callers))


def test_it_is_not_due_before_its_time(callers: Callers, clock: Clock) -> None:
    clock.now += CHECK_S
    assert not callers.is_due(look(callers))


def test_a_change_is_forgotten_at_once(callers: Callers) -> None:
    callers.forget("org_1", "key_1")
    assert callers.look("alice") is None
    assert callers.look("bob") is not None
    callers.forget("org_1")
    assert callers.look("bob") is None
    assert callers.look("charlie") is not None


def test_an_answer_from_before_a_change_is_not_remembered(callers: Callers) -> None:
    since = callers.moment()
    callers.forget("org_1", "key_1")
    callers.learn("alice", ALICE, since=since)
    assert callers.look("alice") is None


def test_in_doubt_everything_is_asked_again(callers: Callers, clock: Clock) -> None:
    clock.now += 1.01 * FRESH_S
    callers.doubt()
    callers.heard()
    assert not callers.is_fresh(look(callers))
    callers.learn("alice", ALICE, since=callers.moment())
    clock.now += 1.01 * FRESH_S
    callers.heard()
    assert callers.is_fresh(look(callers))


def test_what_is_unknown_is_so_for_a_while(callers: Callers, clock: Clock) -> None:
    callers.learn("nobody", None, since=callers.moment())
    assert callers.is_unknown("nobody")
    clock.now += UNKNOWN_S
    assert not callers.is_unknown("nobody")


def test_what_became_unknown_is_not_known(callers: Callers) -> None:
    callers.learn("alice", None, since=callers.moment())
    assert callers.look("alice") is None


def test_both_kinds_are_bounded(callers: Callers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "KEPT", 2)
    callers.learn("alice", ALICE, since=callers.moment())
    assert (callers.look("alice"), callers.look("bob")) != (None, None)
    assert callers.look("bob") is None, "the one that was asked for longest ago"
    for number in range(3):
        callers.learn(str(number), None, since=callers.moment())
    assert [callers.is_unknown(str(number)) for number in range(3)] == [False, True, True]
    assert callers.look("alice") is not None
