"""Deleting old records, bit by bit; what they come to by day stays."""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from math import inf
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from records.merging import be_alone
from records.models import RequestRecord, Retention

BATCH = 1000  # deleted at once: nobody waits for long


def days_ago(days: int) -> datetime:
    return timezone.now() - timedelta(days=days)


def records_before(moment: datetime) -> QuerySet[RequestRecord]:
    """Return the records of messages that came before a moment."""
    return RequestRecord.objects.filter(created_at__lt=moment)


def prune(before: datetime, *, for_s: float = inf) -> int:
    """Delete the records of messages that came before a moment, the oldest first; return how many.

    Stops after `for_s`, and rests as long as it works, so that others get at the database. From the first deletion
    on, reports of such messages come too late.
    """
    old = records_before(before)
    if not old.exists():
        return 0
    _refuse_reports_before(before)
    return delete_oldest(old, "created_at", for_s=for_s)


def delete_oldest(old: QuerySet[Any], order: str, *, for_s: float) -> int:
    """Delete rows in batches, in some order, for a while; return how many."""
    end, gone, last = time.monotonic() + for_s, 0, BATCH
    while last == BATCH and time.monotonic() < end:
        begun = time.monotonic()
        oldest = old.order_by(order, "pk").values_list("pk", flat=True)[:BATCH]
        last, _ = old.model.objects.filter(pk__in=list(oldest)).delete()
        gone += last
        time.sleep(time.monotonic() - begun)
    return gone


def _refuse_reports_before(moment: datetime) -> None:
    with transaction.atomic():
        be_alone()
        retention = Retention.objects.first() or Retention(since=moment)
        retention.since = max(moment, retention.since)
        retention.save()
