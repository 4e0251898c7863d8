"""The only way out: pieces of text pass here, in order, before they become events."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Iterator

from inference.protocol.policies import FAILED
from inference.safety.checks import Checks
from inference.safety.findings import Finding
from inference.safety.judge import Ask
from inference.safety.passage import Passage
from inference.text import Piece

FEW = 8  # tokens that may wait, on top of the look-ahead, without anybody being told: most words could begin a match


class SafetyGate:
    """Hold text back until it is judged; let nothing leave from the first span on that is enforced: `hit`.

    Positions count the characters of text and of calls' inputs, in their order. A text block and an input are passages:
    what ends one ends its look-ahead. After new pieces comes `asks`, which have to be judged, then `release`.
    """

    def __init__(self, checks: Checks | None, spent_ms: defaultdict[str, float]) -> None:
        """Without checks everything is free to go. `spent_ms` takes the time of each check."""
        self.hit: Finding | None = None
        self._findings: list[Finding] = []
        self.most_held = 0  # tokens
        self.held_ms = 0.0  # how long the first text waited
        self._checks, self._spent_ms = checks, spent_ms
        self._passages: deque[Passage] = deque()
        self._open: Passage | None = None  # the last of them, while it grows
        self._held: deque[tuple[Piece, int, int]] = deque()  # where each ends, how many tokens there are up to there
        self._end = self._tokens = 0
        self._left_to = self._left_tokens = 0  # what has left
        self._first_at: float | None = None  # until something has left

    def push(self, piece: Piece) -> None:
        """Take a piece."""
        if self.hit is not None:
            return
        if self._first_at is None and piece.text:
            self._first_at = time.monotonic()
        if self._checks is not None:
            for kind, text in piece.parts():
                self._read(kind, text)
        self._tokens += len(piece.token_ids)
        self._held.append((piece, self._end, self._tokens))

    def end(self) -> None:
        """Note that the text has ended."""
        self._close()

    def trust(self) -> None:
        """Take what was pushed for judged, since it is in the log."""
        for passage in self._passages:
            passage.trust()

    def asks(self) -> list[Ask]:
        """Return what has to be judged before more can leave."""
        return [ask for passage in self._passages for ask in passage.asks()]

    def release(self) -> Iterator[Piece]:
        """Yield what may leave now."""
        self._collect()
        limit, num_tokens = self._limits()
        while self._held and self._held[0][1] <= limit and self._held[0][2] <= num_tokens:
            piece, self._left_to, self._left_tokens = self._held.popleft()
            if piece.text or piece.calls:
                self._note_leaving()
            yield piece
        if self.hit is not None:
            yield from self._cut(self.hit.start)
        self.most_held = max(self.most_held, self._tokens - self._left_tokens)

    @property
    def num_waiting(self) -> int:
        """Tokens that wait for judgement, where they are more than usual, or nothing has left yet; else 0."""
        held = self._tokens - self._left_tokens
        usual = FEW + (self._checks.policy.lookahead_tokens if self._checks and self._checks.output.enforcing else 0)
        return held if held > usual or not self._left_tokens else 0

    def take_findings(self) -> list[Finding]:
        """Return what was found, each once."""
        findings, self._findings = self._findings, []
        return findings

    def left_over(self) -> list[Finding]:
        """Return what was found in what has left, when no more will."""
        self._collect()
        return [finding for finding in self.take_findings() if finding.start < self._left_to]

    def _read(self, kind: str, text: str) -> None:
        assert self._checks is not None
        if kind in ("start", "end"):
            self._close()
            return
        if not text:
            return
        if self._open is None:
            self._open = Passage(self._checks.output, start=self._end, escaped=kind == "input", spent=self._spent_ms)
            self._passages.append(self._open)
        self._open.push(text)
        self._end += len(text)

    def _close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    def _collect(self) -> None:
        """Take what was found, and let go of passages that are judged."""
        new = [finding for passage in self._passages for finding in passage.take_found()]
        self.hit = min((finding for finding in new if finding.enforced), key=_place_of, default=self.hit)
        self._findings += [finding for finding in new if self.hit is None or finding.start <= self.hit.start]
        while self._passages and self._passages[0].over:
            self._passages.popleft()

    def _limits(self) -> tuple[float, float]:
        """Return up to which position, and up to how many tokens, pieces may leave."""
        if not self._passages:
            limit, num_tokens = float("inf"), float("inf")
        else:
            first = self._passages[0]
            limit, num_tokens = first.open_from, self._tokens_ahead(first)
        return (limit if self.hit is None else min(limit, self.hit.start)), num_tokens

    def _tokens_ahead(self, passage: Passage) -> float:
        """Return how many tokens may leave, with those behind them that a classifier has to have seen."""
        assert self._checks is not None
        if not self._checks.output.enforcing:
            return float("inf")
        judged = max((tokens for _, end, tokens in self._held if end <= passage.judged_to), default=0)
        before = max((tokens for _, end, tokens in self._held if end <= passage.start), default=0)
        return max(judged - self._checks.policy.lookahead_tokens, before)

    def _cut(self, start: int) -> Iterator[Piece]:
        """Yield what comes before the span in the piece that it begins in, and drop the rest."""
        held, self._held = self._held, deque()
        if held and start > self._left_to:
            rest = held[0][0].first(start - self._left_to)
            if rest.text or rest.calls:
                yield rest

    def _note_leaving(self) -> None:
        if not self.held_ms and self._first_at is not None:
            self.held_ms = (time.monotonic() - self._first_at) * 1000


def _place_of(finding: Finding) -> int:
    return finding.start


def is_failure(finding: Finding) -> bool:
    """Say whether a check could not run."""
    return finding.category == FAILED
