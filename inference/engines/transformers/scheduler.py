"""Who computes what in the next step."""

from __future__ import annotations

from collections import deque

from inference.engines.transformers.kv_blocks import BlockPool
from inference.engines.transformers.pace import Pace
from inference.engines.transformers.sequence import Chunk, Sequence


class Scheduler:
    """First come, first served: decode for all that run, then prefill in chunks, within `max_batch_tokens` a step.

    Beside sequences that decode, prefill takes only what the pace allows, so that nobody's stream stands still.

    Blocks are taken as they are needed. When none is left, the youngest goes back to the front of the queue, to be
    recomputed from its tokens. So the oldest always gets on, and since every sequence alone fits the pool, each becomes
    the oldest and ends: no deadlock, and no room held for answers that stay short.
    """

    def __init__(self, pool: BlockPool, *, max_batch: int, max_batch_tokens: int) -> None:
        self.pool = pool
        self.max_batch = min(max_batch, max_batch_tokens)  # each that decodes needs a token of the step
        self.max_batch_tokens = max_batch_tokens
        self.waiting: deque[Sequence] = deque()
        self.pace = Pace(least=pool.block_size)
        # In order of arrival. Prefill is served in that order, so those that decode stand before those that prefill.
        self.running: list[Sequence] = []

    def add(self, sequence: Sequence) -> None:
        self.waiting.append(sequence)

    def remove(self, sequence: Sequence) -> None:
        """Forget a sequence and free its blocks at once."""
        if sequence in self.running:
            self.running.remove(sequence)
        else:
            self.waiting.remove(sequence)
        self.pool.free(sequence.id)

    def schedule(self) -> list[Chunk]:
        """Choose the chunks of the next step."""
        self._make_room()
        budget = self._budget()
        self._admit(budget)
        chunks = []
        for sequence in self.running:
            num_tokens = min(sequence.num_pending, budget)
            if num_tokens == 0:
                break
            budget -= num_tokens
            start = sequence.num_computed
            chunks.append(Chunk(sequence, start, start + num_tokens, self.pool.table(sequence.id)))
        return chunks

    def _budget(self) -> int:
        num_decodes = sum(sequence.num_pending == 1 for sequence in self.running)
        if num_decodes == 0:
            return self.max_batch_tokens
        return min(self.max_batch_tokens, num_decodes + self.pace.allowance)

    def _make_room(self) -> None:
        """See that all that run have blocks for their tokens, if need be at the cost of the youngest."""
        for sequence in list(self.running):
            while sequence in self.running and not self.pool.extend(sequence.id, sequence.num_tokens):
                self._preempt(self.running[-1])

    def _preempt(self, sequence: Sequence) -> None:
        self.remove(sequence)
        sequence.num_computed = 0
        self.waiting.appendleft(sequence)

    def _admit(self, budget: int) -> None:
        """Let the next in the queue run while they would get a share of this step."""
        budget -= sum(sequence.num_pending for sequence in self.running)
        while self.waiting and budget > 0 and len(self.running) < self.max_batch and self._can_hold(self.waiting[0]):
            sequence = self.waiting.popleft()
            self.pool.extend(sequence.id, sequence.num_tokens)
            self.running.append(sequence)
            budget -= sequence.num_pending

    def _can_hold(self, sequence: Sequence) -> bool:
        # One block is left for each that runs, otherwise the newcomer might be the first to go again.
        return self.pool.blocks_for(sequence.num_tokens) + len(self.running) <= self.pool.num_free
