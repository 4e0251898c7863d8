"""A request on its way through the engine."""

from __future__ import annotations

from dataclasses import dataclass

from inference.engines.base import EngineRequest
from inference.engines.transformers.guidance import Guide
from inference.engines.transformers.prefixes import PrefixKeys


@dataclass(slots=True, eq=False)
class Sequence:
    """The tokens of one request, and how many of them the KV cache holds.

    0        num_computed        num_prompt        num_tokens
    |-- in the cache --|-------- pending ------------|
    |------------- prompt ---------------|- generated -|
    """

    request: EngineRequest
    token_ids: list[int]
    num_computed: int = 0
    num_cached: int = 0  # of those in the cache, how many were there before this sequence came
    rank: float = 0.0  # when it came, less the head start of its class
    waits_since: float = 0.0
    came_at: float = 0.0
    waiting_s: float = 0.0  # before it was let in for the first time
    was_preempted: bool = False
    keys: PrefixKeys | None = None
    guide: Guide | None = None

    @classmethod
    def of(cls, request: EngineRequest) -> Sequence:
        return cls(request, [*request.prompt_ids, *request.generated_ids])

    @property
    def id(self) -> str:
        return self.request.id

    @property
    def num_tokens(self) -> int:
        return len(self.token_ids)

    @property
    def num_generated(self) -> int:
        return self.num_tokens - len(self.request.prompt_ids)

    @property
    def num_pending(self) -> int:
        return self.num_tokens - self.num_computed

    @property
    def is_full(self) -> bool:
        return self.num_generated >= self.request.max_tokens

    def key(self, block: int) -> bytes:
        """Return the key of what a full block holds."""
        assert self.keys is not None, "keys come with the scheduler"
        return self.keys.of_block(block, self.token_ids)


@dataclass(frozen=True, slots=True)
class Chunk:
    """Tokens `start` to `end` of a sequence, to be computed in one step, and the blocks they are kept in."""

    sequence: Sequence
    start: int
    end: int
    table: list[int]

    @property
    def num_tokens(self) -> int:
        return self.end - self.start

    @property
    def is_last(self) -> bool:
        """Whether a new token follows: nothing of the sequence is pending after this chunk."""
        return self.end == self.sequence.num_tokens
