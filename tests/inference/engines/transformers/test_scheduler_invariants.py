"""Whatever comes: everyone ends, and reads only what is theirs."""

from __future__ import annotations

from typing import Any, get_args

from hypothesis import given
from hypothesis import strategies as st

from inference.engines.transformers.scheduler import Scheduler
from inference.engines.transformers.sequence import Chunk, Sequence
from inference.protocol.outcomes import Priority
from tests.inference.engines.transformers.scheduling import add, advance, prompt_of, scheduler_of, step


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
