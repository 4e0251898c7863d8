"""JSON as it means: the escapes in its strings undone while it is written, so that they hide nothing."""

from __future__ import annotations

_SHORT = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_LONE = "\ufffd"  # half of a surrogate pair


class Unescaper:
    """Reads JSON piece by piece. What is no valid escape is taken as it stands."""

    def __init__(self) -> None:
        self._in_string = False
        self._pending = ""  # an escape that is not whole, or the first half of a pair

    @property
    def num_pending(self) -> int:
        """How many of the characters that came mean nothing yet."""
        return len(self._pending)

    def push(self, written: str) -> list[tuple[str, int]]:
        """Take more; return the characters that are known now, and of each how many were written for it."""
        known: list[tuple[str, int]] = []
        for character in written:
            if self._pending:
                self._pending += character
                known += self._read()
            elif self._in_string and character == "\\":
                self._pending = character
            else:
                self._in_string ^= character == '"'
                known.append((character, 1))
        return known

    def flush(self) -> list[tuple[str, int]]:
        """Return what was left unfinished, as it stands."""
        left, self._pending = self._pending, ""
        return [(character, 1) for character in left]

    def _read(self) -> list[tuple[str, int]]:
        pending = self._pending
        if len(pending) > 6:
            return self._read_pair()
        if pending[1] != "u":
            self._pending = ""
            short = _SHORT.get(pending[1])
            return [(character, 1) for character in pending] if short is None else [(short, 2)]
        if not _is_hex(pending[2:]):
            self._pending = ""
            return [(character, 1) for character in pending]
        if len(pending) < 6:
            return []
        code = int(pending[2:], 16)
        if 0xD800 <= code < 0xDC00:
            return []  # the other half may follow
        self._pending = ""
        return [(_LONE if 0xDC00 <= code < 0xE000 else chr(code), 6)]

    def _read_pair(self) -> list[tuple[str, int]]:
        """Go on after the first half of a pair."""
        high, rest = self._pending[:6], self._pending[6:]
        fits = rest == "\\" or (rest.startswith("\\u") and _is_hex(rest[2:]))
        if fits and len(rest) < 6:
            return []
        if fits and 0xDC00 <= int(rest[2:], 16) < 0xE000:
            self._pending = ""
            return [(chr(0x10000 + ((int(high[2:], 16) - 0xD800) << 10) + int(rest[2:], 16) - 0xDC00), 12)]
        self._pending = ""
        return [(_LONE, 6), *self.push(rest)]


def _is_hex(text: str) -> bool:
    return all(character in "0123456789abcdefABCDEF" for character in text)
