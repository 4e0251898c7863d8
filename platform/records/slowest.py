"""The requests that waited longest for their first token."""

from __future__ import annotations

from datetime import UTC, datetime

from django.db.models import F, QuerySet, Value
from django.db.models.expressions import CombinedExpression
from django.db.models.functions import Concat

from records.models import RequestRecord

SHOWN = 10
FEW = 10_000  # records that are read and sorted; where there are more, the slowest are read till enough of them fit


def slowest_of(since: float, *, model: str = "", organization: str = "") -> list[RequestRecord]:
    """Return the slowest since then (s since the epoch), of one model or all, one organisation or all."""
    asked = {name: value for name, value in (("model", model), ("organization", organization)) if value}
    of_window = RequestRecord.objects.filter(created_at__gte=datetime.fromtimestamp(since, UTC))
    some = of_window.filter(**asked)
    are_few = some.order_by()[: FEW + 1].count() <= FEW
    slowest = some.order_by(_unindexed_wait().desc()) if are_few else _by_wait(of_window, asked)
    return list(slowest.filter(ttft_ms__isnull=False).select_related("organization")[:SHOWN])


def _by_wait(rows: QuerySet[RequestRecord], asked: dict[str, str]) -> QuerySet[RequestRecord]:
    """Return rows in an order that only the index of waits has: by expressions no database can go by another."""
    for name, value in asked.items():
        rows = rows.alias(**{f"{name}_text": Concat(name, Value(""))}).filter(**{f"{name}_text": value})
    return rows.order_by("-ttft_ms")


def _unindexed_wait() -> CombinedExpression:
    return F("ttft_ms") + 0.0
