"""One message in the making: from token ids to the events of its log.

token ids ▶ detokeniser ▶ stop strings ▶ safety gate ▶ content blocks ▶ events
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from inference.detokenizer import Detokenizer, Vocabulary
from inference.engines.base import StepOutput
from inference.protocol.events import MessageEvents
from inference.protocol.outcomes import CancelReason, Outcome, StopReason
from inference.protocol.progress import Progress
from inference.protocol.reports import Settlement
from inference.protocol.requests import GenerationRequest
from inference.safety.gate import SafetyGate
from inference.stop_strings import StopStrings
from inference.text import Piece

ASK_S = 0.05  # how often a message that releases nothing looks for its cancel

_OUTCOMES: dict[StopReason, Outcome] = {
    "end_turn": "end_turn", "max_tokens": "max_tokens", "stop_sequence": "stop_sequence",
}  # fmt: skip
_STOP_REASONS: dict[str, StopReason] = {"end_of_text": "end_turn", "max_tokens": "max_tokens"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A request that this worker has claimed; `waited_ms` is its time in the queue."""

    request: GenerationRequest
    attempt: int
    waited_ms: float


@dataclass(slots=True)
class Batch:
    """Events that wait to be appended: their frames, the token ids each releases, how many are content deltas."""

    first_id: int
    frames: list[bytes] = field(default_factory=list)
    token_ids: list[tuple[int, ...]] = field(default_factory=list)
    deltas: int = 0
    ended: bool = False


class Generation:
    """The state of one claimed message, rebuilt from the log when an earlier attempt began it."""

    def __init__(self, claim: Claim, vocabulary: Vocabulary, progress: Progress) -> None:
        self.request, self.attempt, self.waited_ms = claim.request, claim.attempt, claim.waited_ms
        self.outcome: Outcome | None = progress.outcome
        self.released = len(progress.token_ids)  # tokens in the log, or on their way there
        self._detokenizer = Detokenizer(vocabulary)
        self._stops = StopStrings(claim.request.stop_sequences)
        self._gate = SafetyGate(claim.request.policy)
        self._events = MessageEvents(
            last_id=progress.last_id, next_index=progress.blocks, open_block=progress.open_block
        )
        self.batch = Batch(first_id=progress.last_id + 1)
        self._claimed_at = time.monotonic()
        self._first_token_at: float | None = None
        self._ask_due = 0.0
        self._to_skip = 0
        self._replay(progress.token_ids)

    @property
    def elapsed_s(self) -> float:
        """Seconds since the request came into the queue."""
        return time.monotonic() - self._claimed_at + self.waited_ms / 1000

    def accept(self, output: StepOutput) -> None:
        """Take what a step gave this message."""
        assert self.outcome is None, "an ended message gets no more tokens"
        if output.token_ids and self._first_token_at is None:
            self._first_token_at = time.monotonic()
        self._release(self._filter(output.token_ids))
        if self._stops.matched is not None:
            self._finish("stop_sequence")
        elif output.finish in _STOP_REASONS:
            self._finish(_STOP_REASONS[output.finish])
        elif output.finish is not None:
            message = output.error or "The engine failed on this request."
            self.fail("oom" if output.finish == "oom" else "error", kind="api_error", message=message)

    def cancel(self, reason: CancelReason) -> None:
        """End the message as its client or an operator asked; what was held back stays unsaid."""
        self._end("cancelled", reason)

    def fail(self, outcome: Outcome, *, kind: str, message: str) -> None:
        """End the message with a typed error."""
        if self._events.open_block == "text":
            self._add(self._events.stop_block())
        self._add(self._events.error(kind=kind, message=message))
        self._close(outcome)

    def has_news(self) -> bool:
        """Say whether to write to the log now: for new events at once, else now and then to learn of a cancel."""
        now = time.monotonic()
        if not self.batch.frames and now < self._ask_due:
            return False
        self._ask_due = now + ASK_S
        return True

    def take(self) -> Batch:
        """Return the events that wait, and begin a new batch."""
        taken, self.batch = self.batch, Batch(first_id=self._events.last_id + 1)
        return taken

    def settlement(self, worker: str) -> Settlement:
        """Return the one account of this message."""
        assert self.outcome is not None, "only an ended message is settled"
        request, now = self.request, time.monotonic()
        first = self._first_token_at
        return Settlement(
            id=request.id,
            organization=request.organization,
            key=request.key,
            model=request.model,
            created_at=request.created_at,
            input_tokens=len(request.prompt_ids),
            outcome=self.outcome,
            output_tokens=self.released,
            attempts=self.attempt,
            worker=worker,
            finished_at=time.time(),
            queue_ms=self.waited_ms,
            prefill_ms=None if first is None else (first - self._claimed_at) * 1000,
            generation_ms=(now - self._claimed_at) * 1000,
        )

    def _replay(self, token_ids: tuple[int, ...]) -> None:
        """Bring detokeniser, stop strings and gate to where they were.

        What they let out is in the log already, and so is what they still hold of these tokens: an earlier attempt
        saw the tokens that set it free. That much of what comes out next is skipped.
        """
        let_out = sum(len(piece.token_ids) for piece in self._filter(token_ids))
        self._to_skip = len(token_ids) - let_out
        assert self._to_skip >= 0, "a replay cannot release more than was replayed"

    def _filter(self, token_ids: Iterable[int]) -> list[Piece]:
        """Send tokens through detokeniser, stop strings and gate; return the pieces that come out."""
        out: list[Piece] = []
        for token_id in token_ids:
            piece = self._detokenizer.push(token_id)
            if piece is not None:
                for safe in self._stops.push(piece):
                    out += self._gate.push(safe)
            if self._stops.matched is not None:
                break
        return out

    def _flush(self) -> list[Piece]:
        """Empty detokeniser, stop strings and gate at the end of the text."""
        out: list[Piece] = []
        last = self._detokenizer.flush() if self._stops.matched is None else None
        for piece in [*(self._stops.push(last) if last else ()), *self._stops.flush()]:
            out += self._gate.push(piece)
        return out + self._gate.flush()

    def _release(self, pieces: list[Piece]) -> tuple[int, ...]:
        """Write pieces as one delta; return the token ids that had no text to go with."""
        token_ids: list[int] = []
        texts: list[str] = []
        for piece in pieces:
            if self._to_skip:  # held back by this replay, but in the log already
                self._to_skip -= len(piece.token_ids)
                assert self._to_skip >= 0, "releases end on token boundaries"
                continue
            token_ids += piece.token_ids
            texts.append(piece.text)
        text = "".join(texts)
        if not text:
            return tuple(token_ids)
        if self._events.open_block is None:
            self._add(self._events.start_text())
        self._add(self._events.text(text), tuple(token_ids))
        self.batch.deltas += 1
        return ()

    def _finish(self, reason: StopReason) -> None:
        """End the message as its text ended; a stop string that the last text completes goes first."""
        silent = self._release(self._flush())
        matched = self._stops.matched
        reason = reason if matched is None else "stop_sequence"
        self._end(reason, _OUTCOMES[reason], stop_sequence=matched, token_ids=silent)

    def _end(
        self,
        reason: StopReason,
        outcome: Outcome,
        *,
        stop_sequence: str | None = None,
        token_ids: tuple[int, ...] = (),
    ) -> None:
        if self._events.open_block is not None:
            self._add(self._events.stop_block())
        usage: dict[str, Any] = {
            "input_tokens": len(self.request.prompt_ids),
            "output_tokens": self.released + len(token_ids),
        }
        self._add(self._events.message_delta(stop_reason=reason, stop_sequence=stop_sequence, usage=usage), token_ids)
        self._add(self._events.message_stop())
        self._close(outcome)

    def _close(self, outcome: Outcome) -> None:
        self.outcome = outcome
        self.batch.ended = True

    def _add(self, frame: bytes, token_ids: tuple[int, ...] = ()) -> None:
        self.batch.frames.append(frame)
        self.batch.token_ids.append(token_ids)
        self.released += len(token_ids)
