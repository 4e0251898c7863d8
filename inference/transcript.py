"""What one attempt writes of a message: its events, batch by batch, and the one account of it."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from inference.claims import Claim, Taken
from inference.protocol.events import MessageEvents
from inference.protocol.outcomes import Outcome
from inference.protocol.reports import Settlement
from inference.tail import Batch, Tail

ASK_S = 0.05  # how often a message that releases nothing looks for its cancel


class Transcript:
    """The log of one claimed message from where an earlier attempt left it. It can be ended whatever is wrong."""

    def __init__(self, claim: Claim, taken: Taken) -> None:
        progress = taken.progress
        self.id, self.attempt, self.pen, self.waited_ms = claim.id, claim.attempt, claim.pen, taken.waited_ms
        self.outcome: Outcome | None = progress.outcome
        self.released = len(progress.token_ids)  # tokens in the log, or on their way there
        self.cached_tokens = progress.cached_tokens  # of the prompt, found in the engine's prefix cache
        self.spent_ms: defaultdict[str, float] = defaultdict(float)  # by safety check
        self.held_tokens, self.held_ms = 0, 0.0  # by safety, see `Settlement`
        self.batch_wait_ms = 0.0
        self._events = MessageEvents(
            last_id=progress.last_id, next_index=progress.blocks, open_block=progress.open_block
        )
        self._batch = Batch(first_id=progress.last_id + 1)
        self._tail = Tail()
        self._account: Settlement | None = None
        self.is_counted = False  # among what its worker has done
        self._age_ms = claim.age_ms
        self._claimed_at = time.monotonic()
        self._first_token_at: float | None = None
        self._ask_due = 0.0

    @property
    def elapsed_s(self) -> float:
        """Seconds since the request came into the queue."""
        return time.monotonic() - self._claimed_at + self._age_ms / 1000

    @property
    def is_due(self) -> bool:
        """Whether to write to the log now: new events at once, else now and then to learn of a cancel."""
        return bool(self._batch.frames) or time.monotonic() >= self._ask_due

    def take(self) -> Batch:
        """Return the events that wait, maybe none, and begin a new batch."""
        self._ask_due = time.monotonic() + ASK_S
        taken, self._batch = self._batch, Batch(first_id=self._events.last_id + 1)
        return taken

    def ask_now(self) -> None:
        """Write to the log next time, even if there is nothing to write."""
        self._ask_due = 0.0

    def written(self, batch: Batch) -> None:
        """Note that the log has taken a batch."""
        if batch.frames:
            self._tail.keep(batch)

    def since(self, last_id: int, frame: bytes, batch: Batch) -> Batch | None:
        """Return what follows an event of this log, up to a batch that the log would not take; None where we cannot."""
        return self._tail.after(last_id, frame, batch)

    def put_back(self, batch: Batch) -> float:
        """Take back what the log refused, before more is added; return for how many seconds it has done so."""
        assert not self._batch.frames, "the batch that was refused comes first"
        now = time.monotonic()
        batch.refused_at = batch.refused_at or now
        self._batch = batch
        return now - batch.refused_at

    def fail(self, outcome: Outcome, *, kind: str, message: str) -> None:
        """End the message with a typed error."""
        if self._events.open_block == "text":
            self._add(self._events.stop_block())
        self._add(self._events.error(kind=kind, message=message))
        self._close(outcome)

    def settlement(self, common: Mapping[str, Any], worker: str) -> Settlement:
        """Return the one account of this message, the same each time; `common` is what each report says."""
        self._account = self._account or self._sum_up(common, worker)
        return self._account

    def _sum_up(self, common: Mapping[str, Any], worker: str) -> Settlement:
        assert self.outcome is not None, "only an ended message is settled"
        first = self._first_token_at
        return Settlement(
            **common,
            outcome=self.outcome,
            output_tokens=self.released,
            cached_tokens=self.cached_tokens,
            attempts=self.attempt,
            worker=worker,
            finished_at=time.time(),
            queue_ms=self.waited_ms,
            prefill_ms=None if first is None else (first - self._claimed_at) * 1000,
            batch_wait_ms=self.batch_wait_ms,
            generation_ms=(time.monotonic() - self._claimed_at) * 1000,
            checks={name: round(spent_ms, 3) for name, spent_ms in self.spent_ms.items()},
            held_tokens=self.held_tokens,
            held_ms=self.held_ms,
        )

    def _close(self, outcome: Outcome) -> None:
        self.outcome = self._batch.outcome = outcome

    def _add(self, frame: bytes, token_ids: tuple[int, ...] = ()) -> None:
        self._batch.frames.append(frame)
        self._batch.token_ids.append(token_ids)
        self.released += len(token_ids)
