"""Text and tool calls, told apart while they are written.

A piece leaves when it is known what all of it means. In text only what could be the beginning of a mark waits, with
the space before it: space beside a call belongs to nobody.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from inference.protocol.tools import FORMATS, ToolUse
from inference.stop_strings import build
from inference.text import CallKind, CallPart, PartKind, Piece
from inference.toolcalls.json_walker import SPACE, NotJson
from inference.toolcalls.reader import CallReader, NotACall, Reading

BETWEEN = SPACE + ";"  # what may stand before and between calls that have no mark


class Calls(Protocol):
    """How calls in a message are read, where there can be any.

    `over` says that the answer ends here; `broken` that it does so because a call that has begun is not JSON.
    """

    over: bool
    broken: bool
    num_ended: int

    def push(self, piece: Piece) -> list[Piece]:
        """Take a piece; return those whose meaning is known."""

    def flush(self, *, cut: bool) -> list[Piece]:
        """Return the rest at the end of the text. What is `cut` has no meaning, what was ended so has to be shown."""


class NoCalls:
    """Text in which nothing is a call."""

    over = broken = False
    num_ended = 0

    def push(self, piece: Piece) -> list[Piece]:
        return [piece]

    def flush(self, *, cut: bool) -> list[Piece]:
        return []


@dataclass(frozen=True, slots=True)
class _Said:
    """What a stretch of the written text means. Text has a length, and can be split; the rest is said at its end."""

    start: int
    end: int
    kind: PartKind
    text: str


class ToolCalls:
    """Tells text and calls apart. What looks like a call, but of no tool that there is, stays text.

    Positions count the characters that the model wrote.

        0              _known_to            _read_to
        |-- meaning known --|------- _raw -------|
    """

    def __init__(self, use: ToolUse) -> None:
        self.over = self.broken = False
        self.num_ended = 0
        self._form, self._parallel = FORMATS[use.format], use.parallel
        self._reader = CallReader(self._form, use.names, self._say)
        self._root = self._mark = build([mark for mark in (self._form.opening, self._form.closing) if mark])
        self._reading: Reading | None = None  # of what a mark has opened
        self._is_marked = False  # that it was a mark, and not the bare beginning of an object
        self._in_call = False  # between a start and its end
        self._is_fresh = True  # nothing but space has come since the beginning, or the last call
        self._closing_due = False
        self._raw = ""
        self._known_to = self._read_to = 0
        self._pieces: deque[tuple[Piece, int]] = deque()  # and where each ends
        self._said: deque[_Said] = deque()

    def push(self, piece: Piece) -> list[Piece]:
        """Take a piece; return those whose meaning is known."""
        self._pieces.append((piece, self._read_to + len(piece.text)))
        for character in piece.text:
            if self.over:
                break
            self._raw += character
            self._read_to += 1
            self._push(character)
        return list(self._release())

    def flush(self, *, cut: bool) -> list[Piece]:
        """Return the rest at the end of the text. A call that was cut is left out, one that ended so stays text."""
        if self._in_call:
            self.over = self.broken = not cut
        elif self._reading is None or (not (self._is_fresh and self.num_ended) and not (cut and self._is_marked)):
            self._say_text(len(self._raw))
        self._forget_raw()
        return list(self._release())

    def _push(self, character: str) -> None:
        if self._reading is not None:
            self._push_call(self._reading, character)
        elif character == "{" and self._form.bare and self._is_fresh and not self._raw[:-1].strip(BETWEEN):
            self._open(is_marked=False)
        else:
            self._push_text(character)

    def _push_text(self, character: str) -> None:
        self._mark = self._mark.step(character)
        if self._mark.stop == self._form.opening:
            self._open(is_marked=True)
        elif self._mark.stop and self._closing_due:
            self._closing_due = False
            self._forget_raw()
        else:
            if self._mark.stop:
                self._mark = self._root
            if not self._is_between_calls:
                self._say_text(len(self._raw[: len(self._raw) - self._mark.depth].rstrip(SPACE)))

    @property
    def _is_between_calls(self) -> bool:
        """Whether what stands after a call may be no more than what parts it from the next."""
        return self._form.bare and self._is_fresh and self.num_ended > 0 and not self._raw.strip(BETWEEN)

    def _open(self, *, is_marked: bool) -> None:
        self._mark, self._is_marked = self._root, is_marked
        self._reading = self._reader.read(strict=not is_marked)
        next(self._reading)
        if not is_marked:
            self._reading.send("{")

    def _push_call(self, reading: Reading, character: str) -> None:
        try:
            reading.send(character)
        except StopIteration:
            self._reading = None
            self._closing_due = bool(self._form.closing)
            self._forget_raw()
        except (NotACall, NotJson):
            self._reading = None
            if self._in_call:
                self.over = self.broken = True
                return
            self._say_text(len(self._raw) - 1)
            self._push_text(character)  # it may begin a mark

    def _say(self, kind: CallKind, text: str) -> None:
        """Take what the reader says at the character it has read last."""
        self._said.append(_Said(self._read_to, self._read_to, kind, text))
        self._in_call = kind != "end"
        if kind == "end":
            self.num_ended += 1
            self._is_fresh = True
            self.over = not self._parallel
        self._forget_raw()

    def _say_text(self, length: int) -> None:
        """Say that the first characters of what is raw are text; after a call without the space they begin with."""
        text, end = self._raw[:length], self._known_to + length
        if self._is_fresh and self.num_ended:
            text = text.lstrip(SPACE)
        if text:
            self._said.append(_Said(end - len(text), end, "text", text))
            self._is_fresh = False
        self._raw, self._known_to = self._raw[length:], end

    def _forget_raw(self) -> None:
        self._raw, self._known_to = "", self._read_to

    def _release(self) -> Iterator[Piece]:
        """Let the pieces go of which all is known, with what they mean."""
        while self._pieces and (self.over or self._pieces[0][1] <= self._known_to):
            piece, end = self._pieces.popleft()
            text = ""
            calls: list[CallPart] = []
            for kind, said in self._said_until(end):
                if kind == "text":
                    text += said
                elif kind == "input" and calls and (last := calls[-1]).kind == kind and last.at == len(text):
                    calls[-1] = CallPart(last.at, kind, last.text + said)
                else:
                    calls.append(CallPart(len(text), kind, said))
            yield Piece(piece.token_ids, text, tuple(calls))

    def _said_until(self, end: int) -> Iterator[tuple[PartKind, str]]:
        while self._said and (self._said[0].end <= end or self._said[0].start < end):
            said = self._said.popleft()
            length = min(said.end, end) - said.start
            if said.kind == "text" and length < len(said.text):
                self._said.appendleft(_Said(end, said.end, "text", said.text[length:]))
                yield "text", said.text[:length]
            else:
                yield said.kind, said.text
