"""One message in the making: from token ids to the events of its log.

token ids ▶ detokeniser ▶ stop strings ▶ safety gate ▶ content blocks ▶ events
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Literal

from inference.claims import Claim, Taken
from inference.detokenizer import Detokenizer, Vocabulary
from inference.engines.base import StepOutput
from inference.protocol.outcomes import CancelReason, Outcome, StopReason
from inference.protocol.requests import GenerationRequest
from inference.safety.gate import SafetyGate
from inference.stop_strings import StopStrings
from inference.text import Piece
from inference.transcript import Transcript

TextEnd = Literal["end_turn", "max_tokens", "stop_sequence"]  # reason and outcome in one

_TEXT_ENDS: dict[str, TextEnd] = {"end_of_text": "end_turn", "max_tokens": "max_tokens"}


class Generation(Transcript):
    """The state of one running message, rebuilt from the log when an earlier attempt began it."""

    def __init__(self, claim: Claim, request: GenerationRequest, taken: Taken, vocabulary: Vocabulary) -> None:
        """Raise `UnknownPolicy` when the text could not be judged."""
        super().__init__(claim, taken)
        self.request = request
        self.continued_from = taken.progress.token_ids
        self._detokenizer = Detokenizer(vocabulary)
        self._stops = StopStrings(request.stop_sequences)
        self._gate = SafetyGate(request.policy)
        self._to_skip = 0
        self._replay(self.continued_from)

    def accept(self, output: StepOutput) -> None:
        """Take what a step gave this message."""
        assert self.outcome is None, "an ended message gets no more tokens"
        if output.token_ids and self._first_token_at is None:
            self._first_token_at = time.monotonic()
        self._release(self._filter(output.token_ids))
        if self._stops.matched is not None:
            self._finish("stop_sequence")
        elif output.finish in _TEXT_ENDS:
            self._finish(_TEXT_ENDS[output.finish])
        elif output.finish is not None:
            message = output.error or "The engine failed on this request."
            self.fail("oom" if output.finish == "oom" else "error", kind="api_error", message=message)

    def cancel(self, reason: CancelReason) -> None:
        """End the message as its client or an operator asked; what was held back stays unsaid."""
        self._end("cancelled", reason)

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
        self._batch.deltas += 1
        return ()

    def _finish(self, reason: TextEnd) -> None:
        """End the message as its text ended; a stop string that the last text completes goes first."""
        silent = self._release(self._flush())
        if self._stops.matched is not None:
            reason = "stop_sequence"
        self._end(reason, reason, stop_sequence=self._stops.matched, token_ids=silent)

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
        usage = {
            "input_tokens": len(self.request.prompt_ids),
            "output_tokens": self.released + len(token_ids),
        }
        self._add(self._events.message_delta(stop_reason=reason, stop_sequence=stop_sequence, usage=usage), token_ids)
        self._add(self._events.message_stop())
        self._close(outcome)
