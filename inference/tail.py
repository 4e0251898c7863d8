"""The last events that a worker wrote to a log, kept for a Redis that comes back without them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from inference.protocol.outcomes import Outcome

# An append-only file that is synced every second loses up to 2 s with its machine. A replica that takes over lacks what
# it had not been sent: at most 10 s, where its primary has `min-replicas-to-write` and the usual `…-max-lag`.
KEPT_S = 10.0
KEPT_BYTES = 1_000_000  # of one message

_DELTA = b"event: content_block_delta\n"
_Event = tuple[float, bytes, tuple[int, ...]]  # when it was written, its frame, the token ids it releases


@dataclass(slots=True)
class Batch:
    """Events that are appended together: their frames, the token ids each releases, how many are content deltas."""

    first_id: int
    frames: list[bytes] = field(default_factory=list)
    token_ids: list[tuple[int, ...]] = field(default_factory=list)
    deltas: int = 0
    outcome: Outcome | None = None  # set when the end is among them
    refused_at: float | None = None


class Tail:
    """The events of one message that the log took last, `first_id` and those after it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.first_id = 1
        self._clock = clock
        self._events: deque[_Event] = deque()
        self._bytes = 0
        self._outcome: Outcome | None = None

    def keep(self, batch: Batch) -> None:
        """Take what the log has just taken, and let go of what is so old that Redis cannot lose it any more."""
        self._cut(batch.first_id)
        now = self._clock()
        for frame, token_ids in zip(batch.frames, batch.token_ids, strict=True):
            self._events.append((now, frame, token_ids))
            self._bytes += len(frame)
        self._outcome = batch.outcome
        while len(self._events) > 1 and (now - self._events[0][0] > KEPT_S or self._bytes > KEPT_BYTES):
            self._bytes -= len(self._events.popleft()[1])
            self.first_id += 1

    def after(self, last_id: int, frame: bytes, batch: Batch) -> Batch | None:
        """Return all that follows `last_id`, an event that the log has, to the end of a batch that it did not take.

        None where that reaches further back than what is kept, or where the event is not the one that we wrote.
        """
        first_id = min(self.first_id, batch.first_id) if self._events else batch.first_id
        kept = list(self._events)[: batch.first_id - first_id]
        events = [*((f, t) for _, f, t in kept), *zip(batch.frames, batch.token_ids, strict=True)]
        start = last_id + 1 - first_id
        if not 0 <= start <= len(events) or (start and events[start - 1][0] != frame):
            return None
        frames = [frame for frame, _ in events[start:]]
        outcome = batch.outcome or (None if batch.frames else self._outcome)
        deltas = sum(_DELTA in frame for frame in frames)
        return Batch(last_id + 1, frames, [token_ids for _, token_ids in events[start:]], deltas, outcome)

    def _cut(self, first_id: int) -> None:
        """Forget the events from an id on: they come again."""
        if not self.first_id <= first_id <= self.first_id + len(self._events):
            self._events.clear()
            self._bytes = 0
        if not self._events:
            self.first_id = first_id
        while self.first_id + len(self._events) > first_id:
            self._bytes -= len(self._events.pop()[1])
