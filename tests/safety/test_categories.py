"""The names that rules are checked against are those that the checks find."""

from __future__ import annotations

from inference.protocol.categories import NATIONAL_IDS, PATTERNS, TOXICITY
from inference.safety.classifiers.toxicity import Toxicity
from inference.safety.patterns import BY_NAME_ONLY, CATEGORIES


def test_patterns() -> None:
    assert {*PATTERNS, *NATIONAL_IDS} == set(CATEGORIES)
    assert set(NATIONAL_IDS) == BY_NAME_ONLY


def test_toxicity() -> None:
    assert Toxicity.categories == (TOXICITY,)
