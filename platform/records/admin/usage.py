"""Daily usage in the admin."""

from __future__ import annotations

from collections.abc import Callable

from django.contrib import admin

from common.links import list_of
from records.admin.filters import KeyFilter, ModelFilter, OrganizationFilter
from records.admin.longlist import LongListAdmin
from records.models import DailyUsage, RequestRecord


def number(field: str) -> Callable[[DailyUsage], str]:
    """Make a column of large numbers."""

    @admin.display(description=field.removesuffix("_tokens"))
    def shown(row: DailyUsage) -> str:
        return f"{getattr(row, field):,}"

    return shown


@admin.register(DailyUsage)
class DailyUsageAdmin(LongListAdmin[DailyUsage]):
    """One row per day, key, model and outcome."""

    list_display = ("day", "owner", "key_name", "model", "outcome", "records", number("input_tokens"),
                    number("cached_tokens"), number("output_tokens"))  # fmt: skip
    list_display_links = None
    sortable_by = ("day",)
    list_filter = (("day", admin.DateFieldListFilter), "outcome", ModelFilter, OrganizationFilter, KeyFilter)
    lookups = frozenset({"outcome__exact", "model", "organization__id__exact", "key__id__exact"})
    exclude = ("organization", "key")
    readonly_fields = ("owner", "key_name")
    date_hierarchy = "day"
    export_name = "usage.csv"
    export_columns = ("day", "organization_id", "organization__name", "key_id", "key__name", "model", "outcome",
                      "requests", "input_tokens", "cached_tokens", "output_tokens")  # fmt: skip

    @admin.display(description="requests")
    def records(self, row: DailyUsage) -> str:
        """Lead to the requests that a row counts."""
        day = {"created_at__year": row.day.year, "created_at__month": row.day.month, "created_at__day": row.day.day}
        whose = {"key__id__exact": row.key_id, "model": row.model, "outcome__exact": row.outcome}
        return list_of(self.seen_in, RequestRecord, f"{row.requests:,}", **day, **whose)
