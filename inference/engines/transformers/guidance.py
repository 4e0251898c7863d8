"""Holding what a model writes to a grammar: which tokens may come next.

A grammar is compiled in a thread of its own, which needs no GIL for it. How long that takes and how much memory it and
the masks take is limited here, whatever the grammar: it may come from a hostile schema. Each request compiles its own,
though others may have the same: copies share the states of their lexer, and with them its limit.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from pathlib import Path

from llguidance import LLMatcher, LLParserLimits, LLTokenizer

from inference.engines.base import EngineRequest

LIMITS = LLParserLimits(
    initial_lexer_fuel=1_000_000,  # to compile: some 20 ms
    step_lexer_fuel=200_000,  # for a mask: some 15 ms
    step_max_items=50_000,  # for a mask: some 3 ms
    max_lexer_states=20_000,  # in memory: 1 to 2 kB each
    max_grammar_size=500_000,
    verbose_errors=False,  # they would hold the grammar, which is the caller's own
)
NOTHING, ANYTHING = b"\x00", b"\xff"


class GrammarError(ValueError):
    """Raised when a grammar cannot be compiled, or does not fit what was generated; says why."""


class Guide:
    """Where one sequence stands in its grammar. Where that is not `required` it lets all pass when it is at a loss."""

    def __init__(self, matcher: LLMatcher, *, required: bool) -> None:
        self._matcher, self._required = matcher, required

    @property
    def is_complete(self) -> bool:
        """Whether nothing may follow any more."""
        return self._matcher.is_stopped() and not self._matcher.is_error()

    @property
    def problem(self) -> str:
        """Say why it cannot go on, "" while it can."""
        if not (self._required and self._matcher.is_error()):
            return ""
        return f"The grammar cannot be followed further: {_first_line(self._matcher.get_error())}"

    def mask(self) -> bytes:
        """Return a bit for each token that may come next, the least significant of each byte first."""
        mask = self._matcher.compute_bitmask()
        if self._matcher.is_error():
            return (NOTHING if self._required else ANYTHING) * len(mask)
        return mask

    def accept(self, token_id: int) -> None:
        """Take the token that came next."""
        self._matcher.consume_token(token_id)


class Guidance:
    """Makes the guides of a model's sequences."""

    def __init__(self, tokenizer: Path, vocab_size: int, end_ids: Iterable[int]) -> None:
        """Prepare for the tokenizer in a file, which is read meanwhile: that takes up to a second."""
        self._file, self._vocab_size, self._end_ids = tokenizer, vocab_size, sorted(end_ids)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="guidance")
        self._thread.submit(lambda: self._tokenizer)  # what is wrong with it is told to the first who needs it

    def compile(self, request: EngineRequest) -> Future[Guide]:
        """Begin on a request's guide, which will stand after what was generated. It may end in a `GrammarError`."""
        return self._thread.submit(self._compile, request)

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown(cancel_futures=True)

    @cached_property
    def _tokenizer(self) -> LLTokenizer:
        try:
            written = self._file.read_text(encoding="utf-8")
            return LLTokenizer(written, n_vocab=self._vocab_size, eos_token=self._end_ids or None)
        except Exception as error:  # whatever the library dislikes about it
            raise GrammarError(f"The model's tokenizer cannot be used with a grammar: {error}") from error

    def _compile(self, request: EngineRequest) -> Guide:
        assert request.grammar, "there is a grammar to compile"
        matcher = LLMatcher(self._tokenizer, request.grammar.source, log_level=0, limits=LIMITS)
        if matcher.is_error():
            raise GrammarError(f"The grammar cannot be compiled: {_first_line(matcher.get_error())}")
        if not matcher.consume_tokens(list(request.generated_ids)):
            raise GrammarError("The grammar does not fit what was generated before.")
        return Guide(matcher, required=request.grammar.required)


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]
