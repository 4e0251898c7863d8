from __future__ import annotations

import random
import subprocess
import sys
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.engines.base import EngineRequest
from inference.engines.transformers.kv_blocks import BlockPool
from inference.engines.transformers.scheduler import Scheduler
from inference.engines.transformers.sequence import Chunk, Sequence
from inference.protocol.outcomes import Priority


def scheduler_of(
    num_blocks: int = 64, *, max_batch: int = 8, max_batch_tokens: int = 16, prefix_cache: bool = True
) -> Scheduler:
    return Scheduler(
        BlockPool(num_blocks, block_size=4),
        max_batch=max_batch,
        max_batch_tokens=max_batch_tokens,
        prefix_cache=prefix_cache,
    )


def add(scheduler: Scheduler, name: str, num_prompt: int, max_tokens: int = 10, **changes: Any) -> Sequence:
    """Add a sequence whose prompt is like no other's, unless a test says what it is."""
    fields = {"prompt_ids": prompt_of(num_prompt, name)} | changes
    sequence = Sequence.of(EngineRequest(id=name, max_tokens=max_tokens, **fields))
    scheduler.add(sequence)
    return sequence


def prompt_of(length: int, name: str = "shared") -> tuple[int, ...]:
    return tuple(random.Random(name).choices(range(1000), k=length))


def step(scheduler: Scheduler) -> dict[str, tuple[int, int]]:
    """Do a step as an engine would; return the range of tokens that each sequence computed."""
    chunks = scheduler.schedule()
    assert sum(chunk.num_tokens for chunk in chunks) <= scheduler.max_batch_tokens
    for chunk in chunks:
        advance(scheduler, chunk)
    return {chunk.sequence.id: (chunk.start, chunk.end) for chunk in chunks}


def advance(scheduler: Scheduler, chunk: Chunk) -> None:
    sequence = chunk.sequence
    assert chunk.start == sequence.num_computed
    assert len(chunk.table) * 4 >= chunk.end
    is_last = chunk.is_last
    scheduler.computed(chunk)
    if is_last:
        sequence.token_ids.append(2)
    if sequence.is_full:
        scheduler.remove(sequence)


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


@given(
    st.lists(
        st.tuples(st.integers(1, 30), st.integers(1, 30), st.sampled_from(get_args(Priority)), st.integers(0, 9)),
        min_size=1,
        max_size=12,
    ),
    st.integers(15, 40),
    st.integers(1, 6),
)
def test_everyone_ends(sizes: list[tuple[int, int, Priority, int]], num_blocks: int, max_batch: int) -> None:
    scheduler = scheduler_of(num_blocks, max_batch=max_batch)
    coming, pause = list(enumerate(sizes)), 0

    for _ in range(5000):
        while coming and (pause == 0 or not (scheduler.running or scheduler.waiting)):
            index, (num_prompt, max_tokens, priority, pause) = coming.pop(0)
            add(scheduler, str(index), num_prompt, max_tokens, priority=priority)
        pause = max(0, pause - 1)
        if not (scheduler.running or scheduler.waiting):
            break
        first = first_of(scheduler)
        assert step(scheduler), "a step in which nobody gets on"
        assert first is None or first.num_computed, "the first of the highest class was sent back"
        scheduler.pool.check_integrity()

    assert not scheduler.running
    assert not scheduler.waiting
    assert scheduler.pool.num_used == 0


def first_of(scheduler: Scheduler) -> Sequence | None:
    """Return whom nobody may push out: of the highest class that runs the one that was let in first."""
    classes = get_args(Priority)
    running = sorted(scheduler.running, key=lambda sequence: classes.index(sequence.request.priority))
    return running[0] if running else None


class Memory:
    """What a cache holds: for each slot whose it is, and the tokens up to the one whose keys and values are there."""

    def __init__(self) -> None:
        self._slots: dict[int, tuple[str, tuple[int, ...]]] = {}

    def compute(self, chunk: Chunk) -> None:
        """Read all that comes before a chunk, and write its tokens."""
        sequence, slots = chunk.sequence, [block * 4 + offset for block in chunk.table for offset in range(4)]
        salt = sequence.request.salt
        for position, slot in enumerate(slots[: chunk.end]):
            content = (salt, tuple(sequence.token_ids[: position + 1]))
            if position < chunk.start:
                assert self._slots[slot] == content, "it reads what was computed from other tokens"
            else:
                self._slots[slot] = content


MOVES = st.one_of(
    st.tuples(st.just("add"), st.integers(1, 30), st.integers(1, 12), st.sampled_from("xy"), st.integers(0, 20)),
    st.tuples(st.just("cancel"), st.integers(0, 20)),
    st.tuples(st.just("step")),
)


@given(st.lists(MOVES, max_size=80), st.integers(11, 24))
def test_everybody_reads_only_what_is_theirs(moves: list[tuple[Any, ...]], num_blocks: int) -> None:
    scheduler, memory = scheduler_of(num_blocks, max_batch=4), Memory()
    here: dict[str, Sequence] = {}

    def one_step() -> None:
        chunks = scheduler.schedule()
        assert bool(chunks) == bool(here)
        assert sum(chunk.num_tokens for chunk in chunks) <= scheduler.max_batch_tokens
        for chunk in chunks:
            memory.compute(chunk)
        for chunk in chunks:
            advance(scheduler, chunk)
            if chunk.sequence.is_full:
                del here[chunk.sequence.id]

    for number, move in enumerate(moves):
        if move[0] == "add":
            _, length, max_tokens, salt, own = move
            shared = prompt_of(30)[: max(0, length - own)]
            prompt = (*shared, *prompt_of(length - len(shared), str(number)))
            here[str(number)] = add(scheduler, str(number), 0, max_tokens, prompt_ids=prompt, salt=salt)
        elif move[0] == "step":
            one_step()
        elif here:
            scheduler.remove(here.pop(sorted(here)[move[1] % len(here)]))
        scheduler.pool.check_integrity()
    for _ in range(2000):
        if not here:
            break
        one_step()

    assert not here
    assert scheduler.pool.num_used == 0
    scheduler.pool.check_integrity()


def test_it_needs_no_torch() -> None:
    code = "import sys, inference.engines.transformers.scheduler; sys.exit('torch' in sys.modules)"

    subprocess.run([sys.executable, "-c", code], check=True)
