"""A policy made ready to run: its patterns compiled, its classifiers loaded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from inference.protocol.categories import PATTERN_GROUPS
from inference.protocol.outcomes import StopReason
from inference.protocol.policies import Policy, Rule, Side
from inference.safety.classifiers.base import Classifier
from inference.safety.patterns import PatternSet

OpenClassifier = Callable[[str, str], Classifier]  # of a check's name and its model


@dataclass(frozen=True, slots=True)
class Judging:
    """A classifier, and what its scores do."""

    check: str
    classifier: Classifier
    rules: tuple[Rule, ...]

    @property
    def enforces(self) -> bool:
        return any(rule.action == "enforce" for rule in self.rules)

    @property
    def flags(self) -> bool:
        return any(rule.action == "flag" for rule in self.rules)


@dataclass(frozen=True, slots=True)
class SideChecks:
    """The checks of prompts, or those of answers."""

    patterns: PatternSet | None
    pattern_rules: tuple[Rule, ...]
    judgings: tuple[Judging, ...]

    @property
    def enforcing(self) -> tuple[Judging, ...]:
        """The classifiers that text has to wait for."""
        return tuple(judging for judging in self.judgings if judging.enforces)

    @property
    def names(self) -> tuple[str, ...]:
        """The checks that run."""
        patterns = ("patterns",) if self.patterns else ()
        return (*patterns, *dict.fromkeys(judging.check for judging in self.judgings))


@dataclass(frozen=True, slots=True)
class Checks:
    """All that a policy has checked. `span_key` is what the digests of findings are keyed with.

    `stop_reason` is the word for an answer that was cut.
    """

    policy: Policy
    prompt: SideChecks
    output: SideChecks
    span_key: bytes
    stop_reason: StopReason = "safety"

    @classmethod
    def of(
        cls, policy: Policy, phrases: Mapping[str, Sequence[str]], span_key: bytes, open_classifier: OpenClassifier
    ) -> Checks:
        """Compile a policy, with the phrases of its blocklists by their names."""
        prompt = _side(policy, "prompt", phrases, open_classifier)
        output = _side(policy, "output", phrases, open_classifier)
        return cls(policy, prompt, output, span_key)


def classifiers_of(policy: Policy) -> list[tuple[str, str]]:
    """Return the classifiers that a policy takes: check and model of each."""
    return _judged((*policy.prompt, *policy.output))


def _judged(rules: Iterable[Rule]) -> list[tuple[str, str]]:
    running = (rule for rule in rules if rule.check != "patterns" and rule.action != "off")
    return list(dict.fromkeys((rule.check, rule.model) for rule in running))


def _side(
    policy: Policy, side: Side, phrases: Mapping[str, Sequence[str]], open_classifier: OpenClassifier
) -> SideChecks:
    rules = policy.rules(side)
    pattern_rules = tuple(rule for rule in rules if rule.check == "patterns")
    judgings = tuple(
        Judging(check, open_classifier(check, model), tuple(r for r in rules if (r.check, r.model) == (check, model)))
        for check, model in _judged(rules)
    )
    return SideChecks(_patterns(pattern_rules, phrases), pattern_rules, judgings)


def _patterns(rules: Sequence[Rule], phrases: Mapping[str, Sequence[str]]) -> PatternSet | None:
    running = [rule for rule in rules if rule.action != "off"]
    if not running:
        return None
    enforced = _categories(rule for rule in running if rule.action == "enforce")
    return PatternSet(_categories(running), phrases, held=enforced)  # what only flags holds nothing back


def _categories(rules: Iterable[Rule]) -> list[str]:
    return sorted({name for rule in rules for name in rule.categories or PATTERN_GROUPS})
