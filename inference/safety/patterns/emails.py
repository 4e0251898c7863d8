"""E-mail addresses."""

from __future__ import annotations

import re

from inference.safety.patterns.numbers import before
from inference.safety.patterns.reading import SPACELESS
from inference.safety.patterns.shapes import Match, Rule, chars, repeat, seq

EMAIL = "personal_data.email"

# What no part of an address has in it. Where scripts without spaces begin, a word ends.
_OTHER = rf"\s@,;:!?(){{}}\[\]<>\"`|\\/=&*#$^~«»…·•{SPACELESS}"
_LETTER = rf"^\W_{SPACELESS}"
_START = rf"[{_LETTER}](?<![{_LETTER}].)[^{_OTHER}]{{0,63}}(?:@|\Z)"
_LABEL = chars(_LETTER), chars(rf"^{_OTHER}'._%+", 0, 39)

_FILES = frozenset(
    ("bmp", "css", "gif", "html", "ico", "jpeg", "jpg", "js", "json", "pdf", "png", "svg", "tiff", "ts", "txt", "webp")
)  # fmt: skip


def _address(match: Match) -> bool:
    """Refuse names of files (`icon@2x.png`), the user of every git server, handles, and what logs in within a URL."""
    name, _, domain = match.group().rpartition("@")
    if domain.rpartition(".")[2].lower() in _FILES or name == "git":
        return False
    return re.search(r"(?://[^\s/]*|@)\Z", before(match)) is None


_SHAPE = seq(chars(f"^{_OTHER}", 1, 64), "@", repeat(seq(*_LABEL, "."), 1, 5), chars(rf"^\W\d_{SPACELESS}", 2, 24))
RULES = (Rule(EMAIL, _START, _SHAPE, _address),)
