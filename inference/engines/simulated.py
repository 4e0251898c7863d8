"""An engine without a model, for load and failure tests: a real tokenizer, a given pace, deterministic text."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tokenizers import Tokenizer

from inference.engines.base import EngineRequest, EngineStats, FinishReason, StepOutput
from inference.protocol.settings import Settings

SAY = "SLUICE-SAY:"
LONGEST_NAP_S = 0.005  # cancels and new requests are looked at between steps


@dataclass(slots=True)
class _Sequence:
    request: EngineRequest
    script: tuple[int, ...] | None  # what `SLUICE-SAY:` asked for
    seed: int
    position: int
    prefilled_at: float
    decodes: bool = False  # has said its first token here


class SimulatedEngine:
    """Say a text drawn from the prompt: the first token after `prefill_s`, then one in each step of `tpot_s`.

    A step is for all that decode together; a first token does not wait for it, since it comes of its own prefill.

    `SLUICE-SAY: text` at the start of the last user message makes it say that text, tool calls in it included, then
    end. It knows no grammars.
    Token i depends on the prompt and i alone, so that another worker continues where this one stopped.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        context_length: int,
        max_batch: int,
        prefill_s: float,
        tpot_s: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._tokenizer = tokenizer
        self._words = _plain_words(tokenizer)
        self.context_length, self.max_batch = context_length, max_batch
        self._prefill_s, self._tpot_s = prefill_s, tpot_s
        self._clock, self._sleep = clock, sleep
        self._sequences: dict[str, _Sequence] = {}
        self._step_due = 0.0

    @classmethod
    def load(cls, settings: Settings) -> SimulatedEngine:
        """Make one from the settings, with the tokenizer of the model it stands for."""
        folder = settings.models_path / settings.model
        return cls(
            Tokenizer.from_file(str(folder / "tokenizer.json")),
            context_length=_context_length(folder),
            max_batch=max(settings.max_batch, 256),  # nothing is computed, so nothing limits the batch
            prefill_s=settings.sim_prefill_ms / 1000,
            tpot_s=settings.sim_tpot_ms / 1000,
        )

    def submit(self, request: EngineRequest) -> None:
        """Take a request."""
        said = request.text.lstrip()
        script = None
        if said.startswith(SAY):
            text = said.removeprefix(SAY).removeprefix(" ")
            script = tuple(self._tokenizer.encode(text, add_special_tokens=False).ids)
        self._sequences[request.id] = _Sequence(
            request=request,
            script=script,
            seed=_seed_of(request.prompt_ids),
            position=len(request.generated_ids),
            prefilled_at=self._clock() + self._prefill_s,
        )

    def cancel(self, request_id: str) -> None:
        """Forget a request."""
        self._sequences.pop(request_id, None)

    def step(self) -> list[StepOutput]:
        """Wait a little for the next token that is due; give those that are."""
        if not self._sequences:
            return []
        wait = self._next_due() - self._clock()
        if wait > 0:
            self._sleep(min(wait, LONGEST_NAP_S))
        now = self._clock()
        due = [s for s in self._sequences.values() if not s.decodes and s.prefilled_at <= now]
        decoding = [s for s in self._sequences.values() if s.decodes]
        if not decoding:
            self._step_due = now + self._tpot_s
        elif self._step_due <= now:
            self._step_due = max(self._step_due + self._tpot_s, now)  # a late step does not hurry the next ones
            due += decoding
        return [self._advance(sequence) for sequence in due]

    def _next_due(self) -> float:
        return min(self._step_due if s.decodes else s.prefilled_at for s in self._sequences.values())

    def stats(self) -> EngineStats:
        """Return the load now."""
        used = sum(len(s.request.prompt_ids) + s.position for s in self._sequences.values())
        return EngineStats(running=len(self._sequences), kv_tokens_used=used, prefills=self._prefills())

    def _prefills(self) -> tuple[tuple[str, int, int], ...]:
        now = self._clock()
        return tuple(
            (s.request.id, int(size * min(1.0, 1 - (s.prefilled_at - now) / self._prefill_s)), size)
            for s in self._sequences.values()
            if not s.decodes and self._prefill_s and (size := len(s.request.prompt_ids))
        )

    def _advance(self, sequence: _Sequence) -> StepOutput:
        request = sequence.request
        sequence.decodes = True
        finish: FinishReason | None = None
        tokens: tuple[int, ...] = ()
        if sequence.script is not None and sequence.position >= len(sequence.script):
            finish = "end_of_text"
        else:
            tokens = (self._token(sequence),)
            sequence.position += 1
            if sequence.position >= request.max_tokens:
                finish = "max_tokens"
        if finish:
            del self._sequences[request.id]
        return StepOutput(request.id, tokens, finish)

    def _token(self, sequence: _Sequence) -> int:
        if sequence.script is not None:
            return sequence.script[sequence.position]
        mixed = (sequence.seed + sequence.position * 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
        mixed = ((mixed ^ (mixed >> 31)) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
        return self._words[(mixed >> 20) % len(self._words)]


def _seed_of(prompt_ids: tuple[int, ...]) -> int:
    digest = hashlib.blake2b(",".join(map(str, prompt_ids)).encode(), digest_size=8)
    return int.from_bytes(digest.digest(), "big")


def _plain_words(tokenizer: Tokenizer) -> tuple[int, ...]:
    """Return the ids of tokens that are a space and a lower-case ASCII word."""
    words = []
    for token_id in range(tokenizer.get_vocab_size()):
        text = tokenizer.decode([token_id], skip_special_tokens=True)
        if text.startswith(" ") and text[1:].isascii() and text[1:].isalpha() and text[1:].islower():
            words.append(token_id)
    assert words, "the tokenizer has no plain words to speak with"
    return tuple(words)


def _context_length(folder: Path) -> int:
    return int(json.loads((folder / "config.json").read_text())["max_position_embeddings"])
