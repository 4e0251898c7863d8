"""Shapes of texts that are more than a list of phrases: a regular expression, and one for its beginnings.

Every shape has a longest text, which bounds what is held back and what a search costs.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from inference.safety.patterns.hits import Found
from inference.safety.patterns.reading import LETTER

Match = re.Match[str]


@dataclass(frozen=True, slots=True)
class Shape:
    """Regular expressions of the whole, and of any beginning of it (the whole as well) that the text ends with."""

    whole: str
    begun: str


def literal(text: str) -> Shape:
    return Shape(re.escape(text), _trie([text], r"\Z"))


def chars(allowed: str, least: int = 1, most: int | None = None) -> Shape:
    """Return so many of the characters, written as in the brackets of a regular expression."""
    most = least if most is None else most
    return Shape(f"[{allowed}]{{{least},{most}}}", rf"[{allowed}]{{0,{most}}}\Z")


def seq(*parts: Shape | str) -> Shape:
    """Return one shape after another; a string stands for itself."""
    *firsts, last = [literal(part) if isinstance(part, str) else part for part in parts]
    begun = last.begun
    for part in reversed(firsts):
        begun = f"(?:{part.begun}|{part.whole}(?:{begun}))"
    return Shape("".join(part.whole for part in (*firsts, last)), begun)


def either(*parts: Shape | str) -> Shape:
    texts = [part for part in parts if isinstance(part, str)]
    if len(texts) == len(parts):
        return Shape(f"(?:{'|'.join(map(re.escape, texts))})", _trie(texts, r"\Z"))
    shapes = [literal(part) if isinstance(part, str) else part for part in parts]
    return Shape(f"(?:{'|'.join(shape.whole for shape in shapes)})", f"(?:{'|'.join(shape.begun for shape in shapes)})")


def repeat(part: Shape, least: int, most: int) -> Shape:
    many = f"(?:{part.whole})"
    return Shape(f"{many}{{{least},{most}}}", rf"{many}{{0,{most - 1}}}(?:\Z|{part.begun})")


def marked(part: Shape) -> Shape:
    """Return the part of a shape that is reported; else that is the whole."""
    return Shape(f"({part.whole})", part.begun)


def words(texts: Iterable[str], end: str = "") -> str:
    r"""Return a regular expression of any of the texts, or of a beginning of one that the text ends with.

    What starts with a letter or a digit has no other before it, but for the letter of a written-out `\n`.
    """
    alone = r"(?:(?<![A-Za-z0-9].)|(?<=\\[nrt].))"
    firsts: defaultdict[str, list[str]] = defaultdict(list)
    for text in texts:
        firsts[text[0]].append(text[1:])
    return "|".join(
        f"{re.escape(first)}{alone if first.isalnum() else ''}{_trie(rests, end)}" for first, rests in firsts.items()
    )


def _trie(texts: Iterable[str], end: str) -> str:
    rests: defaultdict[str, list[str]] = defaultdict(list)
    for text in texts:
        rests[text[:1]].append(text[1:])
    branches = [end if first == "" else re.escape(first) + _trie(tails, end) for first, tails in rests.items()]
    return rf"(?:\Z|{'|'.join(branches)})"


def anything(match: Match) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Rule:
    """What a category looks like.

    `start` is a regular expression of what it begins with, which says what may stand before that, too; at the end of
    the text it matches the beginnings of that. After a match comes no letter and no digit, and no digit after one of
    the `joints` either; unless it is `cut`, then anything may follow.
    """

    category: str
    start: str
    shape: Shape
    check: Callable[[Match], bool] = anything
    joints: str = ""
    cut: bool = False

    @property
    def after(self) -> str:
        if self.cut:
            return ""
        return rf"(?!{LETTER}|[{self.joints}]\d)" if self.joints else f"(?!{LETTER})"

    @property
    def begun(self) -> str:
        return seq(self.shape, chars(self.joints, 0, 1)).begun if self.joints else self.shape.begun


class _Group:
    """Rules that begin alike."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.starts = re.compile(rules[0].start).match
        self.begun = re.compile("|".join(dict.fromkeys(rule.begun for rule in rules))).match
        wholes = [rule.shape.whole + rule.after for rule in rules]
        self._any = re.compile("|".join(wholes)).match
        self._rules = [(re.compile(whole).match, rule) for whole, rule in zip(wholes, rules, strict=True)]

    def find(self, text: str, at: int) -> Iterator[Found]:
        """Yield what begins at a candidate; mostly that is nothing."""
        if not self._any(text, at):
            return
        for match_at, rule in self._rules:
            match = match_at(text, at)
            if match is not None and rule.check(match):
                yield *match.span(match.lastindex or 0), rule.category


class Shapes:
    """Finds the matches of rules."""

    folded = False

    def __init__(self, rules: Iterable[Rule]) -> None:
        by_start: defaultdict[str, list[Rule]] = defaultdict(list)
        for rule in rules:
            by_start[rule.start].append(rule)
        self.categories = frozenset(rule.category for group in by_start.values() for rule in group)
        self._candidate = re.compile("|".join(by_start)).search
        self._groups = [_group(tuple(group)) for group in by_start.values()]
        self._alone = len(self._groups) == 1

    def search(self, text: str, at: int, ended: bool) -> tuple[list[Found], int]:
        found: list[Found] = []
        while candidate := self._candidate(text, at):
            at = candidate.start()
            groups = self._groups if self._alone else [group for group in self._groups if group.starts(text, at)]
            if not ended and any(group.begun(text, at) for group in groups):
                return found, at
            for group in groups:
                found += group.find(text, at)
            at += 1
        return found, len(text)


@cache
def _group(rules: tuple[Rule, ...]) -> _Group:
    """Compile rules once: that takes longer than all else about a policy, and policies look for much the same."""
    return _Group(rules)
