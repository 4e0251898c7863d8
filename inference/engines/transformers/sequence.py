"""A request on its way through the engine."""

from __future__ import annotations

from dataclasses import dataclass

from inference.engines.base import EngineRequest


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
