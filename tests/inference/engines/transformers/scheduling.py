"""A scheduler without an engine, for tests."""

from __future__ import annotations

import random
from typing import Any

from inference.engines.base import EngineRequest
from inference.engines.transformers.kv_blocks import BlockPool
from inference.engines.transformers.scheduler import Scheduler
from inference.engines.transformers.sequence import Chunk, Sequence


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
