"""What the records say was used: the truth that quotas are compared with."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import datetime
from typing import Any

from django.apps import apps
from django.db.models import F, QuerySet, Sum
from django.db.models.functions import TruncMinute

Used = Counter[str]  # subject -> tokens

TOKENS = Sum(F("input_tokens") + F("output_tokens"))


def _settled(**when: Any) -> QuerySet[Any]:
    """Return the records of messages that have ended."""
    records = apps.get_model("records", "RequestRecord")  # by its name: neither app knows the other
    return records._default_manager.filter(**when).exclude(outcome="").order_by()


def used_by_minute(since: datetime, until: datetime) -> dict[str, dict[datetime, Used]]:
    """Return what was used on messages that came in a time, by organisation and minute: of each key, and in all."""
    rows = _settled(created_at__gte=since, created_at__lt=until).values_list(
        "organization_id", TruncMinute("created_at"), "key_id"
    )
    found: defaultdict[str, defaultdict[datetime, Used]] = defaultdict(lambda: defaultdict(Counter))
    for organization, minute, key, tokens in rows.annotate(tokens=TOKENS):
        for subject in (key, organization):
            found[organization][minute][subject] += tokens
    return {organization: dict(minutes) for organization, minutes in found.items()}


def used_before(organization: str, until: datetime, *, since: datetime | None = None) -> Used:
    """Return what an organisation used on messages that came before a time: of each key, and in all."""
    when = {"created_at__gte": since} if since else {}
    rows = _settled(organization=organization, created_at__lt=until, **when).values_list("key_id")
    found: Used = Counter()
    for key, tokens in rows.annotate(tokens=TOKENS):
        for subject in (key, organization):
            found[subject] += tokens
    return found
