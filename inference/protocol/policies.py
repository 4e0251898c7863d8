"""Safety policies: which checks look at a message, and what each of their findings does.

A policy travels as a reference, its name and the digest of its definition. Definitions and phrases lie in Redis under
their digests, so that a message keeps the policy it began with, whichever worker has it, and nobody misses a change.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from hashlib import blake2b
from typing import Any, Literal, get_args

Action = Literal["enforce", "flag", "off"]
Check = Literal["patterns", "toxicity", "transformer"]
Side = Literal["prompt", "output"]
ACTIONS: tuple[Action, ...] = get_args(Action)
CHECKS: tuple[Check, ...] = get_args(Check)

OFF = "off"  # the one policy that has no definition: nothing is checked
MOST_LOOKAHEAD = 256
FAILED = "check_failed"  # category of what is recorded where a check could not run

# Redis keys; small, and together in one slot.
CURRENT = "sluice:{policies}:current"  # hash: name -> digest of its definition now
DEFINITIONS = "sluice:{policies}:definitions"  # hash: digest -> encoded `Policy`
PHRASES = "sluice:{policies}:phrases"  # hash: digest -> JSON list of a blocklist's phrases
SPAN_KEY = "sluice:{policies}:span_key"  # what the digests of flagged spans are keyed with


class PolicyError(ValueError):
    """Raised when a policy cannot be what it says; the message names the field."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What one check does about some of its categories; a group (`secrets`) stands for all its members, () for all.

    A classifier's finding counts from `threshold` on. `model` is the transformer's folder or name.
    """

    check: Check
    action: Action
    categories: tuple[str, ...] = ()
    threshold: float = 0.5
    model: str = ""

    def __post_init__(self) -> None:
        if self.check not in CHECKS:
            raise PolicyError(f"check: expected one of {', '.join(CHECKS)}, not {self.check!r}.")
        if self.action not in ACTIONS:
            raise PolicyError(f"action: expected one of {', '.join(ACTIONS)}, not {self.action!r}.")
        if not 0 < self.threshold <= 1:
            raise PolicyError("threshold: expected more than 0, and at most 1.")
        if (self.check == "transformer") != bool(self.model):
            raise PolicyError("model: expected for the check transformer, and for no other.")

    def covers(self, category: str) -> bool:
        """Say whether a category is one of the rule's."""
        return not self.categories or any(
            category == name or category.startswith(name + ".") for name in self.categories
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The rules for prompts and for answers, in order: of those that cover a finding, the first decides.

    A classifier that enforces sees `lookahead_tokens` ahead of what leaves. `blocklists` are names and digests of
    operators' phrases. The text of a finding is kept for `keep_text_days`.
    """

    name: str
    prompt: tuple[Rule, ...] = ()
    output: tuple[Rule, ...] = ()
    lookahead_tokens: int = 8
    keep_text_days: int = 0
    blocklists: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 0 <= self.lookahead_tokens <= MOST_LOOKAHEAD:
            raise PolicyError(f"lookahead_tokens: expected 0 to {MOST_LOOKAHEAD}.")
        if self.keep_text_days < 0:
            raise PolicyError("keep_text_days: expected 0 or more.")

    def rules(self, side: Side) -> tuple[Rule, ...]:
        return self.prompt if side == "prompt" else self.output

    @property
    def digest(self) -> str:
        return digest_of(self.encode())

    @property
    def reference(self) -> str:
        """What a request carries."""
        return f"{self.name}@{self.digest}"

    def encode(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"), sort_keys=True)

    @classmethod
    def decode(cls, blob: bytes | str) -> Policy:
        """Read a definition; raise `PolicyError` for one that this version cannot keep to."""
        try:
            body = json.loads(blob)
            _refuse_unknown(cls, body)
            sides = {side: tuple(_rule(rule) for rule in body.get(side, ())) for side in get_args(Side)}
            return cls(**body | sides)
        except (TypeError, KeyError, AttributeError, ValueError) as error:
            raise error if isinstance(error, PolicyError) else PolicyError(f"not a policy ({error}).") from None


def _rule(body: dict[str, Any]) -> Rule:
    _refuse_unknown(Rule, body)
    return Rule(**body | {"categories": tuple(body.get("categories", ()))})


def _refuse_unknown(kind: type[Any], body: Mapping[str, Any]) -> None:
    """Refuse what a newer version added: a check that is left out unseen lets through what it should not."""
    known = {row.name for row in fields(kind)}
    if unknown := sorted(set(body) - known):
        raise PolicyError(f"{unknown[0]}: not known here.")


def digest_of(encoded: str) -> str:
    """Return the name of a definition's, or of a blocklist's, content."""
    return blake2b(encoded.encode(), digest_size=12).hexdigest()


def encode_phrases(phrases: Sequence[str]) -> str:
    return json.dumps(sorted(set(phrases)), separators=(",", ":"))


def name_of(reference: str) -> str:
    """Return the name of the policy that a request carries."""
    return reference.partition("@")[0]


def built_in(blocklists: Mapping[str, str]) -> dict[str, Policy]:
    """Return the policies that there are without anybody's doing, with an operator's blocklists; the laxest first.

    `off` is not among them: it is the absence of a policy.
    """
    secrets = Rule(check="patterns", action="enforce", categories=("secrets", "blocklist"))
    personal = Rule(check="patterns", action="enforce", categories=("secrets", "personal_data", "blocklist"))
    toxicity = Rule(check="toxicity", action="enforce", threshold=0.9)
    flagged = Rule(check="toxicity", action="flag", threshold=0.9)
    policies = (
        Policy(
            name="standard",
            prompt=(flagged,),
            output=(secrets, Rule(check="patterns", action="flag", categories=("personal_data",)), flagged),
            blocklists=blocklists,
        ),
        Policy(name="strict-output", output=(personal,), blocklists=blocklists),
        Policy(
            name="strict",
            prompt=(toxicity, Rule(check="patterns", action="enforce", categories=("blocklist",))),
            output=(personal, toxicity),
            lookahead_tokens=8,
            blocklists=blocklists,
        ),
    )
    return {policy.name: policy for policy in policies}
