"""What of a text classifiers get to see: windows, which the text alone determines, however it came in pieces.

While a text grows, windows end one after another, each at a gap between words: `window_ends`, `window`. A text that is
there whole takes fewer: `covering`.

`WINDOW`, the size for the linear model, is a sentence or less: in 300 characters harmless words around an insult hide
every second one. Before `FIRST` characters single words mislead; they are about the eight tokens that the built-in
policies look ahead.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

WINDOW = 60  # characters, plus what is left of the word that it begins in
FIRST = 32  # the first window of a growing text is no shorter, if the text is not
STRIDE = 6  # between the ends of two windows
LONGEST_WORD = 24  # what is longer may be cut anywhere

# Thai, Lao, Burmese, Khmer, Han and kana have no spaces between words.
_UNSPACED = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\ua4cf\uf900-\ufaff\U00020000-\U0003ffff"
_GAP = re.compile(rf"(?=\W)|(?<=[\W{_UNSPACED}])(?=\w)")  # never at the end of a text, which may go on


def window_ends(text: str, after: int, *, over: bool) -> Iterator[int]:
    """Yield where windows end in a growing text beyond the last end, 0 for none; its own end only when it is over."""
    while end := _gap(text, after + STRIDE if after else FIRST):
        yield end
        after = end
    if over and after < len(text):
        yield len(text)


def window(text: str, end: int, size: int = WINDOW) -> int:
    """Return where the window that ends at `end` begins, which nothing behind it has a say in."""
    latest = end - size
    if latest <= 0:
        return 0
    for begin in range(latest, max(latest - LONGEST_WORD, 0), -1):
        if _GAP.match(text, begin, end):
            return begin
    return max(latest - LONGEST_WORD, 0)


def covering(text: str, size: int = WINDOW) -> Iterator[tuple[int, int]]:
    """Yield the windows of a whole text: each ends a third of its size behind the last, and none leaves a hole."""
    end = 0
    while end < len(text):
        end = _gap(text, end + size // 3 if end else size) or len(text)
        yield window(text, end, size), end


def _gap(text: str, at: int) -> int:
    """Return the first gap between words from `at` on, 0 where the text has not come so far."""
    if found := _GAP.search(text, at, at + LONGEST_WORD + 1):
        return found.start()
    return at + LONGEST_WORD if len(text) > at + LONGEST_WORD else 0
