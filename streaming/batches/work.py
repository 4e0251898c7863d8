"""What a runner holds in memory. All of it can be found again in the database and in Redis."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from batches.models import Kind
from inference.protocol.requests import GenerationRequest

if TYPE_CHECKING:
    from inference.protocol.spans import Fact


@dataclass(slots=True)
class Item:
    """A request that has not begun; `prepared` once it is checked and tokenised. `stages` are the ms that it took."""

    id: str
    number: int
    params: bytes
    prepared: GenerationRequest | None = None
    stages: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stop:
    """Why no more of a batch is begun, and the result that the rest of it gets."""

    kind: Kind
    body: str


@dataclass(slots=True, kw_only=True)
class BatchRun:
    """A batch that is being run. `cursor` is the number of the last request that was taken from the database."""

    id: str
    organization: str
    key: str
    expires_at: datetime
    canceled: bool = False
    items: deque[Item] = field(default_factory=deque)
    cursor: int = -1
    exhausted: bool = False  # nothing comes after the cursor
    held_until: float = 0.0  # on the monotonic clock
    served: int = 0  # when it last had its turn, in turns
    stop: Stop | None = None

    def end_with(self, stop: Stop) -> None:
        """Begin no more of it."""
        self.stop = stop
        self.rewind(0)

    def rewind(self, number: int) -> None:
        """Take requests again from one on: what became of it is not what was thought."""
        self.items.clear()
        self.cursor = min(self.cursor, number - 1)
        self.exhausted = False


@dataclass(frozen=True, slots=True)
class Running:
    """A request whose message waits or runs.

    `stages`, ms by name, and `facts`, for its trace, are what the runner that has begun it knows.
    """

    id: str
    number: int
    batch: BatchRun
    model: str
    stages: Mapping[str, float] = field(default_factory=dict)
    facts: Mapping[str, Fact] = field(default_factory=dict)
