"""JSON, one character at a time: wrong text is noticed at the first wrong character, a wrong number at its end."""

from __future__ import annotations

import re
from typing import Literal

SPACE = " \n\r\t"
MAX_DEPTH = 200  # clients' parsers fail at about a thousand
LONGEST_NUMBER = 1000

_CLOSING = {"{": "}", "[": "]"}
_ESCAPED = '"\\/bfnrtu'
_HEX = "0123456789abcdefABCDEF"
_SCALAR = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?|true|false|null")
_WORDS = ("true", "false", "null")
_NUMERIC = "0123456789+-.eE"

Expected = Literal[
    "a value", "a value or the end", "a key", "a key or the end", "a colon", "a comma or the end", "string", "scalar",
    "nothing",
]  # fmt: skip


class NotJson(ValueError):
    """Raised where the text can no longer become an object or array."""


class JsonWalker:
    """Follows one object or array to its end.

    `depth` counts what is open, `done` says that its last character has come. `key` is the last key of the outermost
    object, `value` the string that stands there, None while there is none; both as they are written, with escapes.
    """

    def __init__(self) -> None:
        self.key: str | None = None
        self.value: str | None = None
        self._open: list[str] = []
        self._expected: Expected = "a value"
        self._is_key = False
        self._string = ""  # the outermost object's, so far
        self._escape_due = False
        self._digits_due = 0
        self._scalar = ""

    @property
    def depth(self) -> int:
        return len(self._open)

    @property
    def done(self) -> bool:
        return self._expected == "nothing"

    @property
    def awaits_value(self) -> bool:
        """Whether the next character that is no space begins a value."""
        return self._expected in ("a value", "a value or the end")

    def push(self, character: str) -> None:
        """Take the next character."""
        if self._expected == "string":
            self._push_in_string(character)
        elif self._expected == "scalar" and (character.isalpha() or character in _NUMERIC):
            self._push_in_scalar(character)
        else:
            if self._expected == "scalar":
                self._end_scalar()
            if character not in SPACE:
                self._push_between(character)

    def _push_between(self, character: str) -> None:
        """Take a character outside of strings, numbers and words."""
        expected = self._expected
        if character in "}]" and expected.endswith("the end"):
            self._close(character)
        elif self.awaits_value:
            self._begin_value(character)
        elif character == '"' and expected in ("a key", "a key or the end"):
            self._begin_string(is_key=True)
        elif character == ":" and expected == "a colon":
            self._expected = "a value"
        elif character == "," and expected == "a comma or the end":
            self._expected = "a key" if self._open[-1] == "{" else "a value"
        else:
            raise NotJson(f"expected {expected}, not {character!r}")

    def _begin_value(self, character: str) -> None:
        if character in _CLOSING:
            if self.depth == MAX_DEPTH:
                raise NotJson("nested too deeply")
            self._open.append(character)
            self._expected = "a key or the end" if character == "{" else "a value or the end"
        elif not self._open:
            raise NotJson(f"expected an object or an array, not {character!r}")
        elif character == '"':
            self._begin_string(is_key=False)
        else:
            self._expected = "scalar"
            self._push_in_scalar(character)

    def _close(self, character: str) -> None:
        if _CLOSING[self._open.pop()] != character:
            raise NotJson(f"{character!r} closes nothing")
        self._end_value()

    def _end_value(self) -> None:
        self._expected = "a comma or the end" if self._open else "nothing"

    def _begin_string(self, *, is_key: bool) -> None:
        self._expected, self._is_key, self._string = "string", is_key, ""

    def _push_in_string(self, character: str) -> None:
        if self._escape_due or self._digits_due:
            self._push_in_escape(character)
        elif character == '"':
            self._end_string()
            return
        elif character < " ":
            raise NotJson("a control character in a string")
        elif character == "\\":
            self._escape_due = True
        if self.depth == 1:
            self._string += character

    def _push_in_escape(self, character: str) -> None:
        if self._digits_due:
            self._digits_due -= 1
        elif character == "u":
            self._digits_due = 4
        if character not in (_ESCAPED if self._escape_due else _HEX):
            raise NotJson(f"an unknown escape: {character!r}")
        self._escape_due = False

    def _end_string(self) -> None:
        if self._is_key:
            self._expected = "a colon"
        else:
            self._end_value()
        if self.depth == 1:
            self.key, self.value = (self._string, None) if self._is_key else (self.key, self._string)

    def _push_in_scalar(self, character: str) -> None:
        self._scalar += character
        is_number = self._scalar[0] in "-0123456789" and len(self._scalar) <= LONGEST_NUMBER
        if not (is_number or any(word.startswith(self._scalar) for word in _WORDS)):
            raise NotJson("neither a string, a number, true, false nor null")

    def _end_scalar(self) -> None:
        if not _SCALAR.fullmatch(self._scalar):
            raise NotJson(f"{self._scalar!r} is no value")
        self._scalar = ""
        self._end_value()
