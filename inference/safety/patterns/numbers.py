"""What begins like a number."""

from __future__ import annotations

import re
from itertools import pairwise

from inference.safety.patterns.hits import LOOK_BEHIND
from inference.safety.patterns.reading import LETTER
from inference.safety.patterns.shapes import Match, Shape, chars

# Where a number may begin: not inside a word, and not in the middle of a decimal number.
NUMBER = rf"[0-9+(](?<!{LETTER}.)(?<!\d[.,].)"
DIGIT = "0-9"


def digits(least: int, most: int | None = None) -> Shape:
    return chars(DIGIT, least, most)


def digits_of(match: Match) -> str:
    return "".join(filter(str.isdigit, match.group()))


def before(match: Match) -> str:
    """Return what can be relied on of what stands before a match."""
    return match.string[max(match.start() - LOOK_BEHIND, 0) : match.start()]


_PREFIXED = re.compile(r"(?:\d[:/.\- ]|\b[A-Z]{2}\d\d [A-Z0-9 ]*)\Z")


def inside_another(match: Match) -> bool:
    """Say whether what stands before it makes it a part of a longer number, or of an account's."""
    return _PREFIXED.search(before(match)) is not None


def counting(match: Match) -> bool:
    """Say whether it is a row of numbers with the same step: a table, years."""
    numbers = [int(group) for group in re.findall(r"\d+", match.group())]
    steps = {after - number for number, after in pairwise(numbers)}
    return len(numbers) > 2 and len(steps) == 1 and steps != {0}


def one_separator(match: Match) -> bool:
    """Say whether the groups of a number are all separated in the same way."""
    return len({character for character in match.group() if not character.isalnum()}) <= 1
