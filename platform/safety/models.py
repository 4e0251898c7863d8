"""What is checked: policies, with rules for prompts and answers, and operators' blocklists.

Nothing here knows of tenants. Who names a policy says so when asked by `uses`, and then it stays what it is called.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.core.exceptions import ValidationError
from django.core.validators import RegexValidator
from django.db import models
from django.db.models import Subquery
from django.dispatch import Signal

from inference.protocol.categories import NATIONAL_IDS, PATTERN_GROUPS, PATTERNS, TOXICITY, blocklist
from inference.protocol.policies import ACTIONS, CHECKS, MOST_LOOKAHEAD, Policy, PolicyError, Rule, encode_phrases

NAME_LIMIT = 40  # characters
PHRASE_LIMIT = 200
PHRASES_LIMIT = 20_000  # some 400 KB; Django takes forms of up to 2.5 MB
SHOWN_USERS = 3
STRICTNESS = {"off": 0, "standard": 10, "strict-output": 20, "strict": 30}  # of the built-in policies

one_word = RegexValidator(r"\A[a-z0-9][a-z0-9_-]*\Z", "Expected small letters, digits, - and _.")

# Sent with `name`: what uses a policy, as a list of things in words.
uses = Signal()


class Blocklist(models.Model):
    """Phrases that operators do not want to be said."""

    name = models.CharField(max_length=NAME_LIMIT, unique=True, validators=[one_word])
    about = models.CharField(max_length=200, blank=True, default="")
    phrases = models.TextField(help_text="One per line. Neither case nor what only looks alike matters.")
    active = models.BooleanField(default=True)

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name

    @property
    def phrase_list(self) -> list[str]:
        return list(dict.fromkeys(line for raw in self.phrases.splitlines() if (line := raw.strip())))

    @property
    def encoded(self) -> str:
        """The phrases as workers read them."""
        return encode_phrases(self.phrase_list)

    def clean(self) -> None:
        self._check_phrases()
        before = Blocklist.objects.filter(pk=self.pk).first()
        if before and before.name != self.name and (policies := before.named_by()):
            raise ValidationError({"name": f"{', '.join(policies)} has rules for {before.name}: it keeps its name."})

    def named_by(self) -> list[str]:
        """Return the policies with rules for just this list."""
        rules = SafetyRule.objects.filter(check_name="patterns").select_related("policy")
        return sorted({rule.policy.name for rule in rules if blocklist(self.name) in rule.categories})

    def _check_phrases(self) -> None:
        phrases = self.phrase_list
        if not 0 < len(phrases) <= PHRASES_LIMIT:
            raise ValidationError({"phrases": f"expected 1 to {PHRASES_LIMIT} phrases, one per line."})
        from inference.safety.patterns.reading import fold  # what else is there only workers need

        for phrase in phrases:
            if len(phrase) > PHRASE_LIMIT or not fold(phrase):
                shown = phrase if len(phrase) <= NAME_LIMIT else phrase[:NAME_LIMIT] + "…"
                complaint = f"{shown!r}: expected at most {PHRASE_LIMIT} characters, one of them a visible one."
                raise ValidationError({"phrases": complaint})


class SafetyPolicy(models.Model):
    """A named list of rules. Those built in follow the program; they have all active blocklists."""

    name = models.CharField(max_length=NAME_LIMIT, unique=True, validators=[one_word])
    description = models.CharField(max_length=200, blank=True, default="")
    built_in = models.BooleanField(default=False, editable=False)
    strictness = models.PositiveSmallIntegerField(
        default=STRICTNESS["standard"],
        help_text="Customers give their keys no policy with less than their organisation's has. "
        + ", ".join(f"{name}: {strictness}" for name, strictness in STRICTNESS.items()),
    )
    lookahead_tokens = models.PositiveSmallIntegerField(
        "look-ahead",
        default=8,
        help_text=f"Tokens that an enforcing classifier sees ahead of what leaves, 0 to {MOST_LOOKAHEAD}.",
    )
    keep_text_days = models.PositiveSmallIntegerField(
        "keep texts", default=0, help_text="Days for which the text of what was found is kept; 0 keeps none."
    )
    blocklists = models.ManyToManyField(
        Blocklist, blank=True, related_name="policies", help_text="Those that are active are looked for."
    )

    class Meta:
        ordering = ("strictness", "name")
        verbose_name = "policy"
        verbose_name_plural = "policies"

    def __str__(self) -> str:
        return self.name

    def users(self) -> list[str]:
        """Return what uses it, in words."""
        return [user for _, users in uses.send(SafetyPolicy, name=self.name) for user in users or ()]

    def ties(self) -> str:
        """Say what keeps it from being deleted or renamed, "" where nothing does."""
        if self.built_in:
            return f"{self.name} is built in."
        users = self.users()
        more = f" and {len(users) - SHOWN_USERS} more" if len(users) > SHOWN_USERS else ""
        told = f"{self.name} is in use by {', '.join(users[:SHOWN_USERS])}{more}. Give them another policy first."
        return told if users else ""

    def clean(self) -> None:
        try:
            Policy(name=self.name, lookahead_tokens=self.lookahead_tokens, keep_text_days=self.keep_text_days)
        except PolicyError as error:
            raise _about(error) from None
        before = SafetyPolicy.objects.filter(pk=self.pk).first()
        if before and before.name != self.name and (ties := before.ties()):
            raise ValidationError({"name": ties})


class SafetyRule(models.Model):
    """What one check does about some categories. Of the rules that cover a finding, the first decides."""

    class Side(models.TextChoices):
        """Whose text it looks at."""

        PROMPT = "prompt", "prompt"
        OUTPUT = "output", "output"

    policy = models.ForeignKey(SafetyPolicy, on_delete=models.CASCADE, related_name="rules")
    side = models.CharField(max_length=10, choices=Side.choices, default=Side.OUTPUT)
    position = models.PositiveSmallIntegerField("order", default=0)
    # Not `check`: a model has a method of that name.
    check_name = models.CharField("check", max_length=20, choices=[(name, name) for name in CHECKS], db_column="check")
    categories = models.JSONField(default=list, blank=True)
    threshold = models.FloatField(default=0.5)
    model = models.CharField(max_length=200, blank=True, default="")
    action = models.CharField(max_length=10, choices=[(name, name) for name in ACTIONS], default="flag")

    class Meta:
        ordering = ("policy", "-side", "position", "pk")  # prompts first
        verbose_name = "rule"

    def __str__(self) -> str:
        return f"{self.side} {self.check_name}: {self.action}"

    def clean(self) -> None:
        if not (isinstance(self.categories, list) and all(isinstance(name, str) for name in self.categories)):
            raise ValidationError({"categories": "expected a list of names."})
        try:
            self.built()
        except PolicyError as error:
            raise _about(error) from None
        if unknown := sorted(set(self.categories) - set(known := self._known_categories() or self.categories)):
            raise ValidationError({"categories": f"expected some of {', '.join(known)}, not {', '.join(unknown)}."})

    def built(self) -> Rule:
        """Return it as workers read it; raise `PolicyError`."""
        return Rule(
            check=self.check_name,  # type: ignore[arg-type]  # refused there, where it is no check
            action=self.action,  # type: ignore[arg-type]
            categories=tuple(self.categories),
            threshold=self.threshold,
            model=self.model,
        )

    def _known_categories(self) -> Iterable[str] | None:
        """Return what it can name; None for a transformer, which has its own labels."""
        if self.check_name == "transformer":
            return None
        if self.check_name == "toxicity":
            return (TOXICITY,)
        lists = map(blocklist, Blocklist.objects.values_list("name", flat=True))
        return (*PATTERN_GROUPS, *PATTERNS, *NATIONAL_IDS, *lists)


def known_policy(name: Any) -> None:
    """Raise `ValidationError` for what is no policy's name."""
    if name not in (names := policy_names()):
        raise ValidationError(f"expected {', '.join(names)}.")


def policy_names() -> list[str]:
    """Return the names of all policies, the laxest first."""
    return list(SafetyPolicy.objects.values_list("name", flat=True))


def policies_from(name: str) -> list[str]:
    """Return the policies that are at least as strict as one, the laxest first."""
    least = SafetyPolicy.objects.filter(name=name).values("strictness")
    return list(SafetyPolicy.objects.filter(strictness__gte=Subquery(least)).values_list("name", flat=True))


def _about(error: PolicyError) -> ValidationError:
    field, _, text = str(error).partition(": ")
    return ValidationError({"check_name" if field == "check" else field: text})
