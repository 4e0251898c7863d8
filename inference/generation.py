"""One message in the making: from token ids to the events of its log.

token ids ▶ detokeniser ▶ tool calls ▶ stop strings ▶ safety gate ▶ content blocks ▶ events
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from itertools import groupby
from typing import Literal

from inference.claims import Claim, Taken
from inference.detokenizer import Detokenizer, Vocabulary
from inference.engines.base import StepOutput
from inference.protocol.outcomes import CancelReason, Outcome, StopReason
from inference.protocol.requests import GenerationRequest
from inference.protocol.tools import FORMATS
from inference.safety.gate import SafetyGate
from inference.stop_strings import StopStrings
from inference.text import PartKind, Piece
from inference.toolcalls.parser import Calls, NoCalls, ToolCalls
from inference.transcript import Transcript

TextEnd = Literal["end_turn", "max_tokens", "stop_sequence", "tool_use"]  # reason and outcome in one

_TEXT_ENDS: dict[str, TextEnd] = {"end_of_text": "end_turn", "max_tokens": "max_tokens"}


class Generation(Transcript):
    """The state of one running message, rebuilt from the log when an earlier attempt began it."""

    def __init__(self, claim: Claim, request: GenerationRequest, taken: Taken, vocabulary: Vocabulary) -> None:
        """Raise `UnknownPolicy` when the text could not be judged."""
        super().__init__(claim, taken)
        self.request = request
        self.continued_from = taken.progress.token_ids
        tools = request.tools
        self._detokenizer = Detokenizer(vocabulary, vocabulary.special(FORMATS[tools.format].marks) if tools else None)
        self._calls: Calls = ToolCalls(tools) if tools else NoCalls()
        self._stops = StopStrings(request.stop_sequences)
        self._gate = SafetyGate(request.policy)
        self._to_skip = 0
        self._silent: tuple[int, ...] = ()  # tokens that wait for an event to go with
        self._replay(self.continued_from)

    def accept(self, output: StepOutput) -> None:
        """Take what a step gave this message."""
        assert self.outcome is None, "an ended message gets no more tokens"
        if output.token_ids and self._first_token_at is None:
            self._first_token_at = time.monotonic()
        self.cached_tokens = output.cached_tokens
        self._release(self._filter(output.token_ids))
        if self._stops.matched is not None:
            self._finish("stop_sequence")
        elif self._calls.over:
            self._finish("tool_use")
        elif output.finish in _TEXT_ENDS:
            self._finish(_TEXT_ENDS[output.finish])
        elif output.finish is not None:
            message = output.error or "The engine failed on this request."
            self.fail("oom" if output.finish == "oom" else "error", kind="api_error", message=message)

    def cancel(self, reason: CancelReason) -> None:
        """End the message as its client or an operator asked; what was held back stays unsaid."""
        if self._events.open_block == "tool_use":
            # Closed it would be taken for a whole call.
            self.fail(reason, kind="api_error", message="The message was cancelled within a tool call.")
        else:
            self._end("cancelled", reason)

    def _replay(self, token_ids: tuple[int, ...]) -> None:
        """Bring detokeniser, tool calls, stop strings and gate to where they were.

        What they let out is in the log already, and so is what they still hold of these tokens: an earlier attempt
        saw the tokens that set it free. That much of what comes out next is skipped.
        """
        let_out = sum(len(piece.token_ids) for piece in self._filter(token_ids))
        self._to_skip = len(token_ids) - let_out
        assert self._to_skip >= 0, "a replay cannot release more than was replayed"

    def _filter(self, token_ids: Iterable[int]) -> list[Piece]:
        """Send tokens through detokeniser, tool calls, stop strings and gate; return the pieces that come out."""
        out: list[Piece] = []
        for token_id in token_ids:
            piece = self._detokenizer.push(token_id)
            if piece is not None:
                out += self._pass(self._calls.push(piece))
            if self._stops.matched is not None or self._calls.over:
                break
        return out

    def _flush(self, *, cut: bool) -> list[Piece]:
        """Empty detokeniser, tool calls, stop strings and gate at the end of the text."""
        out: list[Piece] = []
        if self._stops.matched is None and not self._calls.over:
            last = self._detokenizer.flush()
            out += self._pass([*(self._calls.push(last) if last else ()), *self._calls.flush(cut=cut)])
        for piece in self._stops.flush():
            out += self._gate.push(piece)
        return out + self._gate.flush()

    def _pass(self, pieces: Iterable[Piece]) -> Iterator[Piece]:
        """Send pieces through stop strings and gate."""
        for piece in pieces:
            for safe in self._stops.push(piece):
                yield from self._gate.push(safe)

    def _release(self, pieces: Iterable[Piece]) -> None:
        """Write pieces as few events; their tokens go with the last of them, or with the next there is."""
        parts: list[tuple[PartKind, str]] = []
        for piece in pieces:
            if self._to_skip:  # held back by this replay, but in the log already
                self._to_skip -= len(piece.token_ids)
                assert self._to_skip >= 0, "releases end on token boundaries"
                continue
            self._silent += piece.token_ids
            parts += piece.parts()
        frames = [
            frame
            for kind, run in groupby((part for part in parts if part[1] or part[0] == "end"), key=lambda part: part[0])
            for frame in self._frames(kind, "".join(text for _, text in run))
        ]
        for frame in frames[:-1]:
            self._add(frame)
        if frames:
            self._add(frames[-1], self._silent)
            self._silent = ()

    def _frames(self, kind: PartKind, text: str) -> Iterator[bytes]:
        """Return the events of a run of text, or of one part of a call."""
        events = self._events
        if kind in ("text", "input"):
            if events.open_block is None:
                yield events.start_text()
            yield events.text(text) if kind == "text" else events.partial_json(text)
            self._batch.deltas += 1
            return
        if events.open_block is not None:
            yield events.stop_block()
        if kind == "start":
            yield events.start_tool_use(tool_id=self._tool_id(events.num_blocks), name=text)

    def _tool_id(self, block: int) -> str:
        """Name a call; another attempt would give it the same name."""
        return "toolu_" + blake2b(f"{self.id}:{block}".encode(), digest_size=12).hexdigest()

    def _finish(self, reason: TextEnd) -> None:
        """End the message as its text ended; a stop string that the last text completes goes first."""
        self._release(self._flush(cut=reason != "end_turn"))
        if self._calls.broken:
            self.fail("error", kind="api_error", message="The model wrote a tool call whose input is not valid JSON.")
            return
        if self._stops.matched is not None:
            reason = "stop_sequence"
        elif reason == "end_turn" and self._calls.num_ended:
            reason = "tool_use"
        self._end(reason, reason, stop_sequence=self._stops.matched)

    def _end(self, reason: StopReason, outcome: Outcome, *, stop_sequence: str | None = None) -> None:
        if self._events.open_block is not None:
            self._add(self._events.stop_block())
        # Only a text that ended by itself has said all of its tokens; of one that was cancelled some are unsaid.
        token_ids = () if reason == "cancelled" else self._silent
        usage = {
            "input_tokens": len(self.request.prompt_ids),
            "output_tokens": self.released + len(token_ids),
        }
        if self.cached_tokens:  # the two counts of the prompt's tokens add up to the whole
            usage["input_tokens"] -= self.cached_tokens
            usage["cache_read_input_tokens"] = self.cached_tokens
        self._add(self._events.message_delta(stop_reason=reason, stop_sequence=stop_sequence, usage=usage), token_ids)
        self._add(self._events.message_stop())
        self._close(outcome)
