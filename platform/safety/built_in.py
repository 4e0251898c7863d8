"""The built-in policies in the database: brought there, and up to date, whenever it is migrated."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

from django.apps import apps as present_apps
from django.apps.registry import Apps
from django.db import transaction

from inference.protocol.policies import OFF, Policy, Side, built_in
from safety.models import STRICTNESS

DESCRIPTIONS = {
    OFF: "Nothing is checked.",
    "standard": "Keeps back secrets and blocklisted phrases; personal data and toxicity are only recorded.",
    "strict-output": "Keeps back personal data, secrets and blocklisted phrases; prompts are not checked.",
    "strict": "As strict-output, and refuses toxic or blocklisted prompts and toxic answers.",
}


def keep_built_in(*, using: str, apps: Apps = present_apps, **_: Any) -> None:
    """Bring the built-in policies up to date, with the models as they are after a migration.

    Nothing is published here: a migration has no need of a Redis, and `safety.tasks` finds out.
    """
    try:
        model, rules = (apps.get_model("safety", name) for name in ("SafetyPolicy", "SafetyRule"))
    except LookupError:
        return  # migrated back to before there were any
    known = {OFF: Policy(name=OFF)} | built_in({})
    with transaction.atomic(using=using):
        policies = model.objects.using(using)
        policies.bulk_create((model(name=name, built_in=True) for name in known), ignore_conflicts=True)
        for row in policies.filter(name__in=known, built_in=True):  # somebody may have one of that name already
            policies.filter(pk=row.pk).update(**_facts(known[row.name]))
            _bring(rules.objects.using(using).filter(policy=row), list(_rules(known[row.name])), row)


def _bring(present: Any, wanted: list[dict[str, Any]], policy: Any) -> None:
    if list(present.order_by("pk").values(*wanted[0] if wanted else ("pk",))) != wanted:
        present.delete()
        present.bulk_create([present.model(policy=policy, **rule) for rule in wanted])


def _facts(policy: Policy) -> dict[str, Any]:
    return {
        "description": DESCRIPTIONS[policy.name],
        "strictness": STRICTNESS[policy.name],
        "lookahead_tokens": policy.lookahead_tokens,
        "keep_text_days": policy.keep_text_days,
    }


def _rules(policy: Policy) -> Iterator[dict[str, Any]]:
    for side in get_args(Side):
        for position, rule in enumerate(policy.rules(side), 1):
            yield {
                "side": side,
                "position": position,
                "check_name": rule.check,
                "categories": list(rule.categories),
                "threshold": rule.threshold,
                "model": rule.model,
                "action": rule.action,
            }
