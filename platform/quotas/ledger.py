"""What the records say was used: the truth that quotas are compared with."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import UTC, date, datetime, time

from django.db.models import F, Sum
from django.db.models.functions import TruncMinute

from records.models import DailyUsage, RequestRecord

Used = Counter[str]  # subject -> tokens

TOKENS = Sum(F("input_tokens") + F("output_tokens"))


def used_by_minute(since: datetime, until: datetime) -> dict[str, dict[datetime, Used]]:
    """Return what was used on messages that came in a time, by organisation and minute: of each key, and in all."""
    settled = RequestRecord.objects.filter(created_at__gte=since, created_at__lt=until).exclude(outcome="").order_by()
    rows = settled.values_list("organization_id", TruncMinute("created_at"), "key_id")
    found: defaultdict[str, defaultdict[datetime, Used]] = defaultdict(lambda: defaultdict(Counter))
    for organization, minute, key, tokens in rows.annotate(tokens=TOKENS):
        for subject in (key, organization):
            found[organization][minute][subject] += tokens
    return {organization: dict(minutes) for organization, minutes in found.items()}


def used_before(organization: str, until: datetime, *, since: date = date.min) -> Used:
    """Return what an organisation used on messages that came from a day (UTC) on, before a time: by key, and in all.

    Whole days are known even when their records are no longer kept.
    """
    day = until.astimezone(UTC).date()
    days = DailyUsage.objects.filter(organization=organization, day__gte=since, day__lt=day).order_by()
    found = _by_subject(organization, days.values_list("key_id").annotate(tokens=TOKENS))
    if day >= since:
        midnight = datetime.combine(day, time(), UTC)
        begun = RequestRecord.objects.filter(organization=organization, created_at__gte=midnight, created_at__lt=until)
        settled = begun.exclude(outcome="").order_by()
        found += _by_subject(organization, settled.values_list("key_id").annotate(tokens=TOKENS))
    return found


def _by_subject(organization: str, tokens_by_key: Iterable[tuple[str, int]]) -> Used:
    found: Used = Counter()
    for key, tokens in tokens_by_key:
        for subject in (key, organization):
            found[subject] += tokens
    return found
