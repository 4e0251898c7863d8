"""Putting texts before classifiers."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan

import pytest

from inference.safety.judge import Ask, Scores, judge


class Fixed:
    """Gives all texts the same scores."""

    categories: tuple[str, ...] = ("a", "b")
    window = 60

    def __init__(self, scores: tuple[float, ...]) -> None:
        self.given, self.texts = scores, list[str]()

    def scores(self, texts: Sequence[str]) -> list[tuple[float, ...]]:
        self.texts += texts
        return [self.given for _ in texts]


def judged(classifier: Fixed, *texts: str) -> list[Scores | None]:
    found: list[Scores | None] = []
    judge(Ask(classifier=classifier, text=text, heed=lambda scores, _: found.append(scores)) for text in texts)
    return found


def test_it_works() -> None:
    classifier = Fixed((0.1, 0.9))
    assert judged(classifier, "x", "y", "x") == [(0.1, 0.9)] * 3
    assert classifier.texts == ["x", "y"]


@pytest.mark.parametrize("scores", [(nan, 0.1), (0.1,), (0.1, 0.2, 0.3), ()])
def test_what_are_no_scores_judges_nothing(scores: tuple[float, ...]) -> None:
    assert judged(Fixed(scores), "x") == [None]
