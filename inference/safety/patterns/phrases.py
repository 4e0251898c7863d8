"""Operators' phrases, thousands of them, in a trie.

Matches begin where words begin, so each such place is followed down the trie instead of keeping Aho and Corasick's
state: that costs the same, and says at once from where on text is still open.

Neither digits nor signs are taken for letters (`1d10t`), and spaced-out or hyphenated words are not joined: an operator
who minds them lists them.
"""

from __future__ import annotations

import logging
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from unicodedata import category

import ahocorasick

from inference.safety.patterns.hits import Found
from inference.safety.patterns.reading import SPACELESS, fold

LONGEST_PHRASE = 200  # characters, as it is written

_LETTER = rf"[^\W_{SPACELESS}]"
_INDIC = r"[\u0900-\u0963\u0966-\u0dff]"  # with vowel signs, which `\w` does not have
_is_word = re.compile(f"{_LETTER}|{_INDIC}").match

logger = logging.getLogger(__name__)


class Phrases:
    """Finds phrases as whole words: where a script separates words, nothing of another word touches a phrase."""

    folded = True

    def __init__(self, phrases: Mapping[str, Sequence[str]]) -> None:
        """Take the phrases of each category; raise `ValueError` for one that cannot be looked for."""
        self.categories = frozenset(phrases)
        names: defaultdict[str, list[str]] = defaultdict(list)
        for name, listed in phrases.items():
            for phrase in listed:
                key = _key(phrase, name)
                if not key:
                    logger.error("%s: the phrase %a finds nothing: it has nothing to be seen", name, phrase)
                elif name not in names[key]:
                    names[key].append(name)
        self._trie = ahocorasick.Automaton()
        for key, categories in names.items():
            self._trie.add_word(key, tuple(categories))
        self._shortest, self._longest = min(map(len, names), default=1), max(map(len, names), default=0)
        self._start = re.compile(_starts({key[0] for key in names})).search

    def search(self, text: str, at: int, ended: bool) -> tuple[list[Found], int]:
        found: list[Found] = []
        while candidate := self._start(text, at):
            at = candidate.start()
            ahead = text[at : at + self._longest + 1]
            known = self._trie.longest_prefix(ahead)
            if known == len(ahead) and not ended:  # it may go on, or what follows may not be a boundary
                return found, at
            if known >= self._shortest:
                self._note(found, text, at, known)
            at += 1
        return found, len(text)

    def _note(self, found: list[Found], text: str, at: int, known: int) -> None:
        """Add the longest phrase of each category that begins here."""
        seen: set[str] = set()
        for end in range(at + known, at + self._shortest - 1, -1):
            if not _ends(text, end):
                continue
            for name in self._trie.get(text[at:end], ()):
                if name not in seen:
                    seen.add(name)
                    found.append((at, end, name))


def _key(phrase: str, name: str) -> str:
    """Return a phrase as it is compared, which can be longer than it is written (Hangul is taken apart), and empty."""
    if len(phrase) > LONGEST_PHRASE:
        raise ValueError(f"{name}: expected phrases of at most {LONGEST_PHRASE} characters, not {len(phrase)}.")
    return fold(phrase)


def _starts(firsts: set[str]) -> str:
    """Return a regular expression of where phrases may begin."""
    after_word = re.escape("".join(sorted(first for first in firsts if _is_word(first))))
    others = re.escape("".join(sorted(first for first in firsts if not _is_word(first))))
    branches = ([rf"[{after_word}](?<!{_LETTER}.)(?<!{_INDIC}.)"] if after_word else []) + (
        [f"[{others}]"] if others else []
    )
    return "|".join(branches) or r"(?!)"


def _ends(text: str, end: int) -> bool:
    """Say whether a phrase may end here: not within a word, nor between a letter and its marks."""
    if end == len(text):
        return True
    last, after = text[end - 1], text[end]
    if after.isascii() and (last.isascii() or not after.isalnum()):
        return not (last.isalnum() and after.isalnum())
    if _is_word(last) and _is_word(after):
        return False
    return not (category(after).startswith("M") or "\u1160" <= after <= "\u11ff")
