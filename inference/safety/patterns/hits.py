"""What the search for patterns gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

Found = tuple[int, int, str]  # start, end and category, in the text as it is read


@dataclass(frozen=True, slots=True)
class Hit:
    """A span of the original text, in characters."""

    start: int
    end: int
    category: str
    score: float = 1.0


class Finder(Protocol):
    """Looks for matches from candidate to candidate, the places where one may begin.

    It keeps no state, and decides about a candidate only when nothing that may follow could change the decision. So
    what it finds is a function of the text, however that comes in pieces.
    """

    @property
    def categories(self) -> frozenset[str]:
        """What it looks for."""

    @property
    def folded(self) -> bool:
        """Whether it reads the folded text."""

    def search(self, text: str, at: int, ended: bool) -> tuple[list[Found], int]:
        """Return what begins at decided candidates from `at` on, and the first candidate that is undecided.

        Without one that is the end of the text. What is before `at` may be looked at, `LOOK_BEHIND` characters of it.
        """


LOOK_BEHIND = 32
