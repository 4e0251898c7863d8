"""One message in the making: from token ids to the events of its log.

token ids ▶ detokeniser ▶ tool calls ▶ stop strings ▶ safety gate ▶ content blocks ▶ events
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from itertools import groupby
from typing import Any, Literal

from inference.claims import Claim, Taken
from inference.detokenizer import Detokenizer, Vocabulary
from inference.engines.base import StepOutput
from inference.protocol.outcomes import CancelReason, Outcome, StopReason
from inference.protocol.policies import Side
from inference.protocol.reports import Trigger
from inference.protocol.requests import GenerationRequest
from inference.protocol.tools import FORMATS
from inference.safety.checks import Checks
from inference.safety.findings import Finding
from inference.safety.gate import SafetyGate, is_failure
from inference.safety.judge import Ask, judge
from inference.safety.prompt import PromptGate
from inference.safety.triggers import trigger_of
from inference.stop_strings import StopStrings
from inference.text import PartKind, Piece
from inference.toolcalls.parser import Calls, NoCalls, ToolCalls
from inference.transcript import Transcript

TextEnd = Literal["end_turn", "max_tokens", "stop_sequence", "tool_use"]  # reason and outcome in one

_TEXT_ENDS: dict[str, TextEnd] = {"end_of_text": "end_turn", "max_tokens": "max_tokens"}


class Generation(Transcript):
    """The state of one running message, rebuilt from the log when an earlier attempt began it.

    Before a message runs, and after each step: `asks` has to be judged, then `proceed` called.
    """

    def __init__(
        self, claim: Claim, request: GenerationRequest, taken: Taken, vocabulary: Vocabulary, checks: Checks | None
    ) -> None:
        """`checks` are those of the request's policy; without, nothing is checked."""
        super().__init__(claim, taken)
        self.request = request
        self.continued_from = taken.progress.token_ids
        self.triggers: list[Trigger] = []
        self._num_told = 0
        tools = request.tools
        self._detokenizer = Detokenizer(vocabulary, vocabulary.special(FORMATS[tools.format].marks) if tools else None)
        self._calls: Calls = ToolCalls(tools) if tools else NoCalls()
        self._stops = StopStrings(request.stop_sequences)
        self._checks = checks
        if checks:
            self.spent_ms.update(dict.fromkeys((*checks.prompt.names, *checks.output.names), 0.0))
        self._gate = SafetyGate(checks, self.spent_ms)
        self._prompt: PromptGate | None = None
        if checks and taken.progress.last_id <= 1:  # else an earlier attempt has begun, and had it checked
            self._prompt = PromptGate(checks, request.texts, self.spent_ms)
        self._ending: TextEnd | None = None
        self._failure: StepOutput | None = None  # of the engine
        self._to_skip = 0
        self._silent: tuple[int, ...] = ()  # tokens that wait for an event to go with
        self._replay(self.continued_from)

    def push(self, output: StepOutput) -> None:
        """Take what a step gave this message."""
        assert self.outcome is None, "an ended message gets no more tokens"
        if output.token_ids and self._first_token_at is None:
            self._first_token_at = time.monotonic()
            self.batch_wait_ms = output.waiting_s * 1000
        self.cached_tokens = output.cached_tokens
        self._read(output.token_ids)
        if self._stops.matched is not None:
            self._end_text("stop_sequence")
        elif self._calls.over:
            self._end_text("tool_use")
        elif output.finish in _TEXT_ENDS:
            self._end_text(_TEXT_ENDS[output.finish])
        elif output.finish is not None:
            self._failure = output

    def asks(self) -> list[Ask]:
        """Return what has to be judged before this message can go on."""
        if self.outcome is not None:
            return []
        return self._gate.asks() if self._prompt is None else self._prompt.asks()

    def proceed(self) -> None:
        """Write what may leave now, and the end when it has come."""
        if self.outcome is not None:
            return
        if self._prompt is not None:
            self._admit_prompt(self._prompt)
            return
        self._release(self._gate.release())
        self.held_tokens, self.held_ms = self._gate.most_held, self._gate.held_ms
        self._tell("output", self._gate.take_findings())
        if self._gate.hit is not None:
            self._end_unsafe(self._gate.hit)
        elif self._ending is not None:
            self._finish(self._ending)
        elif self._failure is not None:
            message = self._failure.error or "The engine failed on this request."
            self.fail("oom" if self._failure.finish == "oom" else "error", kind="api_error", message=message)

    def cancel(self, reason: CancelReason) -> None:
        """End the message as its client or an operator asked; what was held back stays unsaid."""
        self._tell_rest()
        if self._events.open_block == "tool_use":
            # Closed it would be taken for a whole call.
            self.fail(reason, kind="api_error", message="The message was cancelled within a tool call.")
        else:
            self._end("cancelled", reason)

    def fail(self, outcome: Outcome, *, kind: str, message: str) -> None:
        """End the message with a typed error."""
        if outcome == "timeout":
            self._tell_rest()
        super().fail(outcome, kind=kind, message=message)

    @property
    def num_waiting(self) -> int:
        """Tokens that wait for safety, where that is worth a word."""
        return self._gate.num_waiting if self.outcome is None else 0

    @property
    def untold(self) -> list[Trigger]:
        """What checks found that nobody was told of yet."""
        return self.triggers[self._num_told :]

    def told(self, count: int) -> None:
        """Note that so many more were told."""
        self._num_told += count

    def tell_again(self) -> None:
        """Note that what was told may be forgotten."""
        self._num_told = 0

    def _admit_prompt(self, prompt: PromptGate) -> None:
        self._prompt = None
        found = prompt.findings()
        self._tell("prompt", found)
        if hit := next((finding for finding in found if finding.enforced), None):
            self._end_unsafe(hit)

    def _tell(self, side: Side, found: Iterable[Finding]) -> None:
        if self._checks is not None:
            self.triggers += [trigger_of(finding, side, self.request, self._checks) for finding in found]

    def _tell_rest(self) -> None:
        """Tell what is to be found in text that has left before its end: who asks for no more hides nothing."""
        if self._prompt is None:
            self._gate.end()
            judge(self._gate.asks())
            self._tell("output", self._gate.left_over())

    def _replay(self, token_ids: tuple[int, ...]) -> None:
        """Bring detokeniser, tool calls, stop strings and gate to where they were.

        What they let out is in the log already, and so is what they still hold of these tokens: an earlier attempt
        saw the tokens that set it free. That much of what comes out next is skipped.
        """
        self._read(token_ids)
        self._gate.trust()
        let_out = sum(len(piece.token_ids) for piece in self._gate.release())
        self._to_skip = len(token_ids) - let_out
        assert self._to_skip >= 0, "a replay cannot release more than was replayed"

    def _read(self, token_ids: Iterable[int]) -> None:
        """Send tokens through detokeniser, tool calls and stop strings to the gate."""
        for token_id in token_ids:
            piece = self._detokenizer.push(token_id)
            if piece is not None:
                self._pass(self._calls.push(piece))
            if self._stops.matched is not None or self._calls.over:
                break

    def _end_text(self, reason: TextEnd) -> None:
        """Empty detokeniser, tool calls and stop strings into the gate: the text has ended."""
        self._ending = reason
        if self._stops.matched is None and not self._calls.over:
            last = self._detokenizer.flush()
            self._pass([*(self._calls.push(last) if last else ()), *self._calls.flush(cut=reason != "end_turn")])
        for piece in self._stops.flush():
            self._gate.push(piece)
        self._gate.end()

    def _pass(self, pieces: Iterable[Piece]) -> None:
        """Send pieces through stop strings to the gate."""
        for piece in pieces:
            for free in self._stops.push(piece):
                self._gate.push(free)

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
        """End the message as its text ended; a stop string that the last text completed goes first."""
        if self._calls.broken:
            self.fail("error", kind="api_error", message="The model wrote a tool call whose input is not valid JSON.")
            return
        if self._stops.matched is not None:
            reason = "stop_sequence"
        elif reason == "end_turn" and self._calls.num_ended:
            reason = "tool_use"
        self._end(reason, reason, stop_sequence=self._stops.matched)

    def _end_unsafe(self, hit: Finding) -> None:
        """End the message before what a check would not let pass."""
        assert self._checks is not None
        if is_failure(hit):
            self.fail("error", kind="api_error", message=f"The safety check {hit.check} could not run.")
        elif self._events.open_block == "tool_use":  # closed it would be taken for a whole call
            message = f"A tool call was cut by the safety check {hit.check} ({hit.category})."
            self.fail("safety", kind="api_error", message=message)
        else:
            word = self._checks.stop_reason
            details = {"type": word, "category": hit.category, "explanation": None, "check": hit.check}
            self._end(word, "safety", stop_details=details)

    def _end(
        self,
        reason: StopReason,
        outcome: Outcome,
        *,
        stop_sequence: str | None = None,
        stop_details: dict[str, Any] | None = None,
    ) -> None:
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
        ending = self._events.message_delta(
            stop_reason=reason, stop_sequence=stop_sequence, stop_details=stop_details, usage=usage
        )
        self._add(ending, token_ids)
        self._add(self._events.message_stop())
        self._close(outcome)
