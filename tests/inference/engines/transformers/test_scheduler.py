from __future__ import annotations

import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st

from inference.engines.base import EngineRequest
from inference.engines.transformers.kv_blocks import BlockPool
from inference.engines.transformers.scheduler import Scheduler
from inference.engines.transformers.sequence import Chunk, Sequence


def scheduler_of(num_blocks: int = 64, *, max_batch: int = 8, max_batch_tokens: int = 16) -> Scheduler:
    return Scheduler(BlockPool(num_blocks, block_size=4), max_batch=max_batch, max_batch_tokens=max_batch_tokens)


def add(scheduler: Scheduler, name: str, num_prompt: int, max_tokens: int = 10) -> Sequence:
    sequence = Sequence.of(EngineRequest(id=name, prompt_ids=(1,) * num_prompt, max_tokens=max_tokens))
    scheduler.add(sequence)
    return sequence


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
    sequence.num_computed = chunk.end
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
    add(scheduler, "c", 2)

    assert step(scheduler) == {"a": (2, 3), "b": (0, 4)}
    assert step(scheduler) == {"a": (3, 4), "b": (4, 8)}
    assert step(scheduler) == {"a": (4, 5), "b": (8, 12)}
    assert step(scheduler) == {"b": (12, 28)}, "with nobody to wait for it, it takes the whole step"


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

    assert list(scheduler.waiting) == [younger]
    assert (younger.num_computed, younger.num_generated) == (0, 5)


def test_it_recomputes_what_was_sent_back() -> None:
    scheduler = scheduler_of(4)
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


@given(
    st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=12),
    st.integers(15, 40),
    st.integers(1, 6),
)
def test_everyone_ends(sizes: list[tuple[int, int]], num_blocks: int, max_batch: int) -> None:
    scheduler = scheduler_of(num_blocks, max_batch=max_batch)
    for index, (num_prompt, max_tokens) in enumerate(sizes):
        add(scheduler, str(index), num_prompt, max_tokens)

    for _ in range(5000):
        if not (scheduler.running or scheduler.waiting):
            break
        assert step(scheduler), "a step in which nobody gets on"
        scheduler.pool.check_integrity()

    assert not scheduler.running
    assert not scheduler.waiting
    assert scheduler.pool.num_used == 0


def test_it_needs_no_torch() -> None:
    code = "import sys, inference.engines.transformers.scheduler; sys.exit('torch' in sys.modules)"

    subprocess.run([sys.executable, "-c", code], check=True)
