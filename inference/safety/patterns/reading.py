"""The text as patterns read it: what is invisible or only looks different is normalised away, character by character.

Each character stands for a few others, or for none, whatever its neighbours are, but for three rules that look back at
what was read last: a run of white space is its first character, a run of invisible characters that is too long breaks
words, and a breve makes `й` of `и`. So how the text comes in pieces makes no difference, and each character that is
read belongs to one place of the original.

NFKD with the marks dropped is what NFKC and dropping them from composed letters come to. Marks that make another
letter (dakuten, nukta, the vowel signs of Indic scripts and Thai) are kept.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from unicodedata import category, combining, decimal, normalize

from inference.safety.patterns.hits import LOOK_BEHIND
from inference.safety.patterns.lookalikes import LOOKALIKES

# Scripts that put no space between words, and Hangul, where particles are attached to them.
SPACELESS = (
    r"\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u2e80-\u9fff\ua000-\ua4cf\ua960-\ua97f\uac00-\ud7ff"
    r"\uf900-\ufaff\uff66-\uffdf\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
LETTER = rf"[^\W{SPACELESS}]"  # or digit or underscore, of a script with spaces: it belongs to what it touches
LONGEST_RUN = 64  # of white space, or of invisible characters; bounds how much of the original is held back
BREAK = "\n"  # what stands for longer ones; two of them in a row are in no pattern

_MOST_KEPT = 20_000  # characters whose readings are remembered, more than any language has in use
_RUNS = re.compile(r"[!-~](?: ?[!-~])*|.", re.DOTALL)  # runs that are read as they are written, and other characters
_BREVE = "\u0306"
_QUOTES = dict.fromkeys("\u2018\u2019\u201a\u201b\u02bc\u02b9\u2032", "'") | dict.fromkeys("“”„‟″", '"')
# Default ignorable characters that are no format characters: joiners, fillers, variation selectors.
_IGNORABLE = re.compile(r"[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0000-\U000e0fff]")


class _Readings(dict[str, str]):
    """What is read for each character, worked out when it first comes."""

    def __missing__(self, character: str) -> str:
        if len(self) == _MOST_KEPT:
            self.clear()
        reading = self[character] = "".join(map(_plain, normalize("NFKD", character)))
        return reading


class _Folds(dict[int, str]):
    """The folded character for each one that is read, for `str.translate`."""

    def __missing__(self, code: int) -> str:
        if len(self) == _MOST_KEPT:
            self.clear()
        character = chr(code).casefold()  # one character: `_plain` has taken care of the others
        fold = self[code] = LOOKALIKES.get(character, " " if character == "\n" else character)
        return fold


def _plain(character: str) -> str:
    """Return what one character of a decomposition is read as; marks are dropped by their combining classes."""
    if character.isspace():
        return "\n" if character in "\n\r\v\f\x85\u2028\u2029" else " "
    if character == "\u2800":  # an empty braille cell
        return " "
    kind, mark = category(character), combining(character)
    if kind in ("Cf", "Cc") or _IGNORABLE.match(character):
        return ""
    if mark and character != _BREVE:
        # 7 to 9 are nukta, dakuten and virama, 84 to 132 vowel signs and tones of Telugu, Thai, Lao and Tibetan.
        return character if 7 <= mark <= 9 or 84 <= mark <= 132 else ""
    if kind == "Nd":
        return str(decimal(character))
    if kind == "Pd" or character == "\u2212":
        return "-"
    folded = character.casefold()
    return folded if len(folded) > 1 else _QUOTES.get(character, character)


_READINGS = _Readings()
_FOLDS = _Folds()


class Reading:
    """What was read of a growing text, from somewhere on, and where each character of it was written."""

    def __init__(self, *, folding: bool) -> None:
        self.text = ""
        self.folded = ""  # letters without case, lookalikes as Latin letters; else the same, place by place
        self.length = 0  # of the original
        self._folding = folding
        self._quiet = 0  # characters since the last one that was read
        self._shift = 0  # how far the place of a character is behind its position in `text`, now
        self._steps: list[int] = [0]  # where in `text` a stretch starts that was written without gaps
        self._places: list[int] = [0]  # and where in the original it does

    def add(self, written: str) -> None:
        """Read more of the original."""
        if self._is_plain(written):
            self._read_plain(written)
            return
        for run in _RUNS.findall(written):
            if "!" <= run[0] <= "~":
                self._read_plain(run)
            else:
                self._read(run)

    def place(self, at: int) -> int:
        """Return where a character that was read was written; the end of the original for the end of the text."""
        if at == len(self.text):
            return self.length
        step = bisect_right(self._steps, at) - 1
        return self._places[step] + at - self._steps[step]

    def forget(self, until: int) -> int:
        """Forget what nobody will look at any more; return how much that was."""
        cut = until - LOOK_BEHIND
        if cut <= 0:
            return 0
        self.text, self.folded = self.text[cut:], self.folded[cut:]
        step = bisect_right(self._steps, cut) - 1
        first = self._places[step] + cut - self._steps[step]
        self._steps = [0, *(at - cut for at in self._steps[step + 1 :])]
        self._places = [first, *self._places[step + 1 :]]
        self._shift = self._places[-1] - self._steps[-1]
        return cut

    def _is_plain(self, written: str) -> bool:
        """Say whether it is read as it is written: nearly all of a text in English is."""
        if not written.isascii() or not written.isprintable() or "  " in written:
            return False
        return written[:1] != " " or self.text[-1:] not in (" ", "\n")

    def _read_plain(self, written: str) -> None:
        self._continue()
        self._quiet = 0
        self.length += len(written)
        self.text += written
        if self._folding:
            self.folded += written.lower()

    def _read(self, character: str) -> None:
        quiet = True
        for part in _READINGS[character]:
            last = self.text[-1:]
            if (part.isspace() and last.isspace()) or (part == _BREVE and last not in ("и", "И")):
                continue
            quiet = False
            self._emit(part)
        self._quiet = self._quiet + 1 if quiet else 0
        if self._quiet == LONGEST_RUN:
            self._quiet = 0
            for _ in range(1 if self.text[-1:].isspace() else 2):
                self._emit(BREAK)
        self.length += 1

    def _emit(self, part: str) -> None:
        self._continue()
        self.text += part
        if self._folding:
            self.folded += _FOLDS[ord(part)]

    def _continue(self) -> None:
        """Begin a new stretch where there is a gap, or more than one character was read for one."""
        shift = self.length - len(self.text)
        if shift != self._shift:
            self._shift = shift
            self._steps.append(len(self.text))
            self._places.append(self.length)


def fold(phrase: str) -> str:
    """Return a whole phrase as it is compared."""
    reading = Reading(folding=True)
    reading.add(phrase)
    return " ".join(reading.folded.split())
