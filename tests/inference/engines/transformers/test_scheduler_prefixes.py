"""What a prompt shares with others is computed once."""

from __future__ import annotations

import pytest

from tests.inference.engines.transformers.scheduling import add, prompt_of, scheduler_of, step


def test_a_prefix_is_computed_once() -> None:
    scheduler = scheduler_of()
    add(scheduler, "a", 0, prompt_ids=prompt_of(14))
    step(scheduler)

    second = add(scheduler, "b", 0, prompt_ids=(*prompt_of(14)[:9], 7, 7))

    assert step(scheduler) == {"a": (14, 15), "b": (8, 11)}
    assert scheduler.pool.table("a")[:2] == scheduler.pool.table("b")[:2]
    assert second.num_cached == 8


def test_the_last_token_of_a_prompt_is_always_computed() -> None:
    scheduler = scheduler_of()
    add(scheduler, "a", 0, max_tokens=1, prompt_ids=prompt_of(12))
    step(scheduler)

    add(scheduler, "b", 0, prompt_ids=prompt_of(12))

    assert step(scheduler) == {"b": (8, 12)}


def test_another_tenant_shares_nothing() -> None:
    scheduler = scheduler_of()
    add(scheduler, "a", 0, prompt_ids=prompt_of(12), salt="one")
    step(scheduler)

    add(scheduler, "b", 0, prompt_ids=prompt_of(12), salt="another")

    assert step(scheduler)["b"] == (0, 12)


def test_it_can_do_without() -> None:
    scheduler = scheduler_of(prefix_cache=False)
    for name in "ab":
        add(scheduler, name, 0, max_tokens=1, prompt_ids=prompt_of(12))
        assert step(scheduler) == {name: (0, 12)}
    assert scheduler.pool.num_free == 64


def test_an_answer_is_part_of_the_next_turn() -> None:
    scheduler = scheduler_of()
    turn = add(scheduler, "a", 6, max_tokens=8)
    while scheduler.running or scheduler.waiting:
        step(scheduler)

    add(scheduler, "b", 0, prompt_ids=(*turn.token_ids, 5, 5, 5))

    assert step(scheduler) == {"b": (12, 17)}, "but for the last token of the answer, which nobody computed"


def test_those_that_come_together_wait_for_what_they_share() -> None:
    scheduler = scheduler_of()
    for name in "abc":
        add(scheduler, name, 0, prompt_ids=(*prompt_of(12), ord(name), 1, 2))

    assert step(scheduler) == {"a": (0, 15)}
    assert step(scheduler) == {"a": (15, 16), "b": (12, 15), "c": (12, 15)}


def test_a_long_prefix_is_followed_as_it_is_computed() -> None:
    scheduler = scheduler_of()
    add(scheduler, "a", 0, prompt_ids=(*prompt_of(40), 1))
    add(scheduler, "b", 0, prompt_ids=(*prompt_of(32), 2))

    assert [step(scheduler) for _ in range(3)] == [{"a": (0, 16)}, {"a": (16, 32)}, {"a": (32, 41), "b": (32, 33)}]


def test_what_was_sent_back_finds_its_own_blocks() -> None:
    scheduler = scheduler_of(8)
    add(scheduler, "a", 4)
    younger = add(scheduler, "b", 20)
    step(scheduler)
    while not scheduler.waiting:
        step(scheduler)
    while scheduler.waiting:
        ranges = step(scheduler)

    assert ranges == {"b": (16, 24)}
    assert younger.num_cached == 0, "that is not what a client is told of"


@pytest.mark.parametrize("gone", ["cancelled", "ended"])
def test_who_waited_for_a_prefix_computes_it_when_the_other_goes(gone: str) -> None:
    scheduler = scheduler_of()
    first = add(scheduler, "a", 0, prompt_ids=(*prompt_of(40), 1))
    add(scheduler, "b", 0, prompt_ids=(*prompt_of(40), 2))
    step(scheduler)

    scheduler.remove(first)

    assert step(scheduler) == {"b": (16, 32)}
