"""What passes from the detokeniser to the log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

CallKind = Literal["start", "input", "end"]
PartKind = Literal["text", "start", "input", "end"]


@dataclass(frozen=True, slots=True)
class CallPart:
    """What a piece tells of a tool call after the first `at` characters of its text.

    `text` is the tool's name at the start, and a fragment of JSON in the input.
    """

    at: int
    kind: CallKind
    text: str = ""


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of tokens and the text they release together, which never ends inside a character.

    A piece without text carries token ids that wait for the next text, or for the end. It is never taken apart, but
    for the final cut: so what is in the log always ends with a token.
    """

    token_ids: tuple[int, ...]
    text: str
    calls: tuple[CallPart, ...] = ()

    def until(self, end: int) -> Piece:
        """Return it with the first `end` characters of its text, and what it tells of calls up to there."""
        return Piece(self.token_ids, self.text[:end], tuple(part for part in self.calls if part.at <= end))

    def first(self, count: int) -> Piece:
        """Return it with the first `count` characters of text and inputs together, without a call that only begins."""
        text, calls = "", []
        for kind, said in self.parts():
            if kind == "end":
                calls.append(CallPart(len(text), kind))
                continue
            if not count and (said or kind == "start"):
                break
            if kind == "start":
                calls.append(CallPart(len(text), kind, said))
                continue
            kept = said[:count]
            if kind == "text":
                text += kept
            elif kept:
                calls.append(CallPart(len(text), kind, kept))
            if kept != said:
                break  # a call whose input is cut has no end
            count -= len(kept)
        return Piece(self.token_ids, text, tuple(calls))

    def parts(self) -> list[tuple[PartKind, str]]:
        """Return text and calls in their order."""
        if not self.calls:
            return [("text", self.text)]
        parts: list[tuple[PartKind, str]] = []
        start = 0
        for part in self.calls:
            parts += [("text", self.text[start : part.at]), (part.kind, part.text)]
            start = part.at
        return [*parts, ("text", self.text[start:])]
