"""Who is computed in which step."""

from __future__ import annotations

import subprocess
import sys

import pytest

from inference.engines.transformers.kv_blocks import BlockPool
from inference.engines.transformers.scheduler import Scheduler
from inference.protocol.outcomes import Priority
from tests.inference.engines.transformers.scheduling import add, scheduler_of, step


def test_it_works() -> None:
    scheduler = scheduler_of()
    add(scheduler, "a", 5)
    add(scheduler, "b", 3)

    assert step(scheduler) == {"a": (0, 5), "b": (0, 3)}
    assert step(scheduler) == {"a": (5, 6), "b": (3, 4)}


def test_it_prefills_in_chunks_beside_those_that_decode() -> None:
    scheduler = scheduler_of()
    add(scheduler, "a", 2)
    step(scheduler)
    add(scheduler, "b", 40)

    assert step(scheduler) == {"a": (2, 3), "b": (0, 15)}
    assert step(scheduler) == {"a": (3, 4), "b": (15, 30)}
    assert step(scheduler) == {"a": (4, 5), "b": (30, 40)}


def test_it_prefills_little_at_a_time_while_others_decode() -> None:
    scheduler = scheduler_of()
    add(scheduler, "a", 2, max_tokens=4)
    step(scheduler)
    scheduler.pace.note([16], 16.0)
    add(scheduler, "b", 40)

    assert step(scheduler) == {"a": (2, 3), "b": (0, 4)}
    assert step(scheduler) == {"a": (3, 4), "b": (4, 8)}
    assert step(scheduler) == {"a": (4, 5), "b": (8, 12)}
    assert step(scheduler) == {"b": (12, 28)}, "with nobody to wait for it, it takes the whole step"


def test_it_prefills_short_prompts_first_once_it_knows_what_that_saves() -> None:
    scheduler = scheduler_of()
    add(scheduler, "a", 2)
    step(scheduler)
    scheduler.pace.note([16], 16.0)
    add(scheduler, "b", 40)
    step(scheduler)
    add(scheduler, "c", 3)

    assert step(scheduler) == {"a": (3, 4), "c": (0, 3), "b": (4, 5)}


def test_it_serves_prefills_in_order_of_arrival() -> None:
    scheduler = scheduler_of()
    add(scheduler, "a", 20)
    add(scheduler, "b", 5)

    assert step(scheduler) == {"a": (0, 16)}
    assert step(scheduler) == {"a": (16, 20), "b": (0, 5)}


def test_it_runs_no_more_than_max_batch() -> None:
    scheduler = scheduler_of(max_batch=2)
    for name in "abc":
        add(scheduler, name, 1, max_tokens=2)

    assert step(scheduler).keys() == {"a", "b"}
    assert step(scheduler).keys() == {"a", "b"}
    assert step(scheduler).keys() == {"c"}


def test_it_tells_how_long_each_waited_for_a_place() -> None:
    time = [0.0]
    scheduler = Scheduler(BlockPool(64, block_size=4), max_batch=1, max_batch_tokens=16, clock=lambda: time[-1])
    first, second = (add(scheduler, name, 1, max_tokens=2) for name in "ab")
    for now in (1.0, 2.0, 3.5):
        time.append(now)
        step(scheduler)
    assert (first.waiting_s, second.waiting_s) == (1.0, 3.5)


def test_it_runs_no_more_than_can_decode_in_one_step() -> None:
    assert scheduler_of(max_batch=99, max_batch_tokens=16).max_batch == 16


def test_it_sends_the_youngest_back_when_blocks_run_out() -> None:
    scheduler = scheduler_of(4)
    older = add(scheduler, "a", 4)
    younger = add(scheduler, "b", 4)
    for _ in range(5):
        step(scheduler)
    assert scheduler.running == [older, younger]

    assert step(scheduler).keys() == {"a"}

    assert scheduler.waiting == [younger]
    assert (younger.num_computed, younger.num_generated) == (0, 5)


@pytest.mark.parametrize(
    ("classes", "sent_back"),
    [
        (["batch", "standard"], "a"),
        (["standard", "priority"], "a"),
        (["batch", "batch"], "b"),
        (["batch", "batch", "priority"], "b"),
        (["standard", "batch", "standard"], "b"),
    ],
)
def test_it_sends_back_whom_it_can_wait_for_first(classes: list[Priority], sent_back: str) -> None:
    scheduler = scheduler_of(2 * len(classes))
    here = [add(scheduler, name, 4, priority=each) for name, each in zip("abc", classes, strict=False)]
    step(scheduler)
    while not scheduler.waiting:
        step(scheduler)

    assert [sequence.id for sequence in scheduler.waiting] == [sent_back]
    assert all(sequence.num_computed for sequence in here if sequence.id != sent_back)


def test_one_that_was_sent_back_keeps_nobody_of_a_higher_class_out() -> None:
    scheduler = scheduler_of(8)
    add(scheduler, "urgent", 16, max_tokens=9, priority="priority")
    add(scheduler, "batch", 12, max_tokens=9, priority="batch")
    step(scheduler)
    step(scheduler)
    while not scheduler.waiting:
        step(scheduler)
    add(scheduler, "short", 2, max_tokens=1, priority="priority")
    add(scheduler, "another", 2, max_tokens=1, priority="batch")

    assert step(scheduler).keys() == {"urgent", "short"}


def test_it_recomputes_what_was_sent_back() -> None:
    scheduler = scheduler_of(4, prefix_cache=False)
    add(scheduler, "a", 4)
    younger = add(scheduler, "b", 4)
    step(scheduler)
    while not scheduler.waiting:
        step(scheduler)
    num_tokens = younger.num_tokens
    while scheduler.waiting:
        ranges = step(scheduler)

    assert ranges == {"b": (0, num_tokens)}


def test_it_lets_nobody_overtake_one_that_needs_much_room() -> None:
    scheduler = scheduler_of(4)
    add(scheduler, "a", 4, max_tokens=3)
    add(scheduler, "b", 15, max_tokens=1)
    add(scheduler, "c", 1, max_tokens=1)

    assert [list(step(scheduler)) for _ in range(4)] == [["a"], ["a"], ["a"], ["b", "c"][:1]]


def test_it_lets_whoever_has_waited_longest_in_first() -> None:
    scheduler = scheduler_of(max_batch=1)
    add(scheduler, "late", 4, max_tokens=1)
    add(scheduler, "early", 4, max_tokens=1, waited_s=2.0)
    add(scheduler, "batch", 4, max_tokens=1, waited_s=60.0, priority="batch")
    add(scheduler, "urgent", 4, max_tokens=1, priority="priority")

    assert [list(step(scheduler)) for _ in range(4)] == [["urgent"], ["early"], ["late"], ["batch"]]


def test_waiting_counts_more_than_class_in_the_end() -> None:
    scheduler = scheduler_of(max_batch=1)
    add(scheduler, "urgent", 4, max_tokens=1, priority="priority")
    add(scheduler, "standard", 4, max_tokens=1, waited_s=11.0)
    add(scheduler, "batch", 4, max_tokens=1, waited_s=700.0, priority="batch")

    assert [list(step(scheduler)) for _ in range(3)] == [["batch"], ["standard"], ["urgent"]]


def test_it_needs_no_torch() -> None:
    code = "import sys, inference.engines.transformers.scheduler; sys.exit('torch' in sys.modules)"

    subprocess.run([sys.executable, "-c", code], check=True)
