"""Who computes what in the next step."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from inference.engines.transformers.kv_blocks import BlockPool
from inference.engines.transformers.pace import Pace
from inference.engines.transformers.prefixes import PrefixKeys
from inference.engines.transformers.sequence import Chunk, Sequence
from inference.protocol.outcomes import PRIORITY_HEAD_START_S

PATIENCE = 3.0  # a prompt lets shorter ones pass that come within so many times what it takes alone


class Scheduler:
    """Decode for all that run, then prefill in chunks, within `max_batch_tokens` a step.

    Prefill takes only what the pace allows: beside sequences that decode, so that nobody's stream stands still, and by
    itself, so that no step takes longer than `longest_step_s`. It goes to whoever should be done first: by time of
    arrival, class and length, so that a short prompt need not wait for a long one, nor a long one for ever.

    Blocks are taken as they are needed. When none is left, one goes back to the queue, to be recomputed from its
    tokens: of the lowest class that runs the one that was let in last. So the first of the highest class always gets
    on: every sequence alone fits the pool, and it is the last that would go. When it has ended there is another first.
    Of those that are here each becomes the first and ends: no deadlock, and no room held for answers that stay short.
    Only work of a class that never ceases to come can keep a lower one from getting on.

    With the prefix cache, what the pool holds of a sequence's beginning is not computed again, and what somebody else
    is about to compute is waited for. The last token is always computed: the next one is drawn from it.
    """

    def __init__(
        self,
        pool: BlockPool,
        *,
        max_batch: int,
        max_batch_tokens: int,
        prefix_cache: bool = True,
        longest_step_s: float = math.inf,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.pool = pool
        self.max_batch = min(max_batch, max_batch_tokens)  # each that decodes needs a token of the step
        self.max_batch_tokens = max_batch_tokens
        self.prefix_cache = prefix_cache
        self.waiting: list[Sequence] = []
        self.pace = Pace(least=pool.block_size, most_s=longest_step_s)
        self.running: list[Sequence] = []  # in the order in which they were let in
        self._clock = clock

    def add(self, sequence: Sequence) -> None:
        """Take a sequence, to run when its turn comes."""
        request, now = sequence.request, self._clock()
        sequence.keys = PrefixKeys(request.salt, self.pool.block_size)
        sequence.rank = now - request.waited_s - PRIORITY_HEAD_START_S[request.priority]
        sequence.waits_since = now if request.generated_ids else now - request.waited_s
        sequence.came_at = now
        self.waiting.append(sequence)

    def remove(self, sequence: Sequence) -> None:
        """Forget a sequence and let go of its blocks at once."""
        if sequence in self.running:
            self.running.remove(sequence)
        else:
            self.waiting.remove(sequence)
        self.pool.free(sequence.id)

    def schedule(self) -> list[Chunk]:
        """Choose the chunks of the next step."""
        self._make_room()
        chunks = [self._chunk(sequence, 1) for sequence in self.running if sequence.num_pending == 1]
        return chunks + self._prefill(len(chunks))

    def computed(self, chunk: Chunk) -> None:
        """Note that a chunk's keys and values are in the cache, where others may share its full blocks."""
        sequence, size = chunk.sequence, self.pool.block_size
        sequence.num_computed = chunk.end
        if self.prefix_cache:
            for index in range(chunk.start // size, chunk.end // size):
                self.pool.publish(sequence.id, index, sequence.key(index))

    def _chunk(self, sequence: Sequence, num_tokens: int) -> Chunk:
        start = sequence.num_computed
        return Chunk(sequence, start, start + num_tokens, self.pool.table(sequence.id))

    def _make_room(self) -> None:
        """See that all that run have blocks for their tokens, if need be at the cost of the last in line."""
        line = sorted(self.running, key=lambda s: -PRIORITY_HEAD_START_S[s.request.priority])
        index = 0
        while index < len(line):
            if self.pool.extend(line[index].id, line[index].num_tokens):
                index += 1
            else:
                self._preempt(line.pop())

    def _preempt(self, sequence: Sequence) -> None:
        self.remove(sequence)
        sequence.num_computed = 0
        sequence.was_preempted = True
        sequence.waits_since = self._clock()
        self.waiting.insert(0, sequence)

    def _prefill(self, num_decodes: int) -> list[Chunk]:
        """Share what the step has left among those whose prompts are not computed yet."""
        now, lateness, used, closed = self._clock(), 0.0, 0, False
        chunks: list[Chunk] = []
        begun: set[bytes] = set()  # contents of which this step computes the beginning
        for sequence in self._line():
            late = max(lateness, self._lateness(sequence, now))
            left = min(self.pace.allowance(num_decodes, late), self.max_batch_tokens - num_decodes) - used
            if left <= 0 or (closed and sequence not in self.running):
                continue
            content = self._next_content(sequence)
            if content in begun:
                continue  # in a step or two it is there, and need not be computed twice
            if sequence in self.running:
                self._reuse(sequence)
            elif not self._let_in(sequence):
                closed = True  # nobody overtakes one that needs much room
                continue
            num_tokens = min(sequence.num_pending, left)
            chunks.append(self._chunk(sequence, num_tokens))
            lateness, used = late, used + num_tokens
            if content is not None:
                begun.add(content)
        return chunks

    def _line(self) -> list[Sequence]:
        """Return those with a prompt to compute, whoever should be done first at the front."""
        token_s = PATIENCE * self.pace.prefill_token_s
        line = [sequence for sequence in self.running if sequence.num_pending > 1] + self.waiting
        # Those that were sent back are not to wait for what they have to compute again.
        return sorted(line, key=lambda s: s.rank + (0 if s.was_preempted else token_s * s.num_pending))

    def _lateness(self, sequence: Sequence, now: float) -> float:
        # Work of a class that stands back is never late.
        waited_s = now - max(sequence.waits_since, sequence.rank)
        return self.pace.lateness(waited_s, sequence.num_tokens - sequence.num_cached)

    def _let_in(self, sequence: Sequence) -> bool:
        """Let a sequence run, if there are blocks for all its tokens; else nothing changes."""
        if len(self.running) >= self.max_batch:
            return False
        self._reuse(sequence)
        # One block is left for each that runs, otherwise the newcomer might be the first to go again.
        missing = self.pool.blocks_for(sequence.num_pending) + len(self.running)
        if missing > self.pool.num_free:
            self.pool.free(sequence.id)
            sequence.num_computed = sequence.num_cached = 0
            return False
        self.pool.extend(sequence.id, sequence.num_tokens)
        self.waiting.remove(sequence)
        self.running.append(sequence)
        if not sequence.was_preempted:
            sequence.waiting_s = self._clock() - sequence.came_at
        return True

    def _reuse(self, sequence: Sequence) -> None:
        """Take over what the pool has of the sequence's next tokens."""
        for index in range(*self._reusable(sequence)):
            if not self.pool.share(sequence.id, index, sequence.key(index)):
                break
            end = (index + 1) * self.pool.block_size
            if not sequence.was_preempted:  # then it takes back what it computed itself
                sequence.num_cached += end - sequence.num_computed
            sequence.num_computed = end

    def _reusable(self, sequence: Sequence) -> tuple[int, int]:
        """Return the range of blocks that could be found in the pool: not the one with the last token."""
        if not self.prefix_cache:
            return 0, 0
        size = self.pool.block_size
        return sequence.num_computed // size, (sequence.num_tokens - 1) // size

    def _next_content(self, sequence: Sequence) -> bytes | None:
        """Return the key of the first block that is not in the pool; None for one that nobody will share."""
        start, end = self._reusable(sequence)
        keys = (sequence.key(index) for index in range(start, end))
        return next((key for key in keys if not self.pool.has(key)), None)
