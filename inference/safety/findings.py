"""What checks find, and what follows from it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from inference.protocol.policies import FAILED, Action, Rule


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A span that a check found, from `start`, in characters of all texts of its side; `text` is what it says."""

    check: str
    category: str
    action: Action
    start: int
    score: float = 1.0
    text: str = ""

    @property
    def enforced(self) -> bool:
        return self.action == "enforce"


def decide(rules: Iterable[Rule], scores: Iterable[tuple[str, float]]) -> tuple[str, float, Action] | None:
    """Return category, score and action of what weighs most among scores by category; None where nothing does.

    Of the rules that cover a category and whose threshold it reaches, the first decides about it.
    """
    rules = tuple(rules)
    found = [(category, score, action) for category, score in scores if (action := action_of(rules, category, score))]
    return max(found, key=lambda each: (each[2] == "enforce", each[1]), default=None)


def action_of(rules: Sequence[Rule], category: str, score: float = 1.0) -> Action | None:
    """Return what a finding does, None where it does nothing."""
    for rule in rules:
        if score >= rule.threshold and rule.covers(category):
            return None if rule.action == "off" else rule.action
    return None


def failure(check: str, start: int) -> Finding:
    """Return what is recorded of a check that could not run."""
    return Finding(check=check, category=FAILED, action="enforce", start=start)
