"""Safety triggers in the admin, with how many there were over time."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.html import format_html_join
from django.utils.safestring import mark_safe

from common.links import list_of, page_of
from records.admin.filters import ExactFilter, KeyFilter, OrganizationFilter, names_in
from records.admin.longlist import LongListAdmin
from records.models import RequestRecord
from records.rates import USUAL, Span, chart_of
from records.triggers import SafetyTrigger
from safety.models import SafetyPolicy, policy_names

SEE_TEXT = "records.view_trigger_text"
SHOWN = 100  # of one request
_FIELD_OF_PREFIX = {"org": "organization_id", "key": "key_id"}


class CategoryFilter(ExactFilter):
    """By category."""

    title = field = parameter_name = "category"

    def choices_for(self, request: HttpRequest) -> list[tuple[str, str]]:
        return [(name, name) for name in names_in(SafetyTrigger, "category")]


class PolicyFilter(ExactFilter):
    """By policy, of those there are now."""

    title = field = parameter_name = "policy"

    def choices_for(self, request: HttpRequest) -> list[tuple[str, str]]:
        return [(name, name) for name in policy_names()]


@admin.register(SafetyTrigger)
class SafetyTriggerAdmin(LongListAdmin[SafetyTrigger]):
    """One row per finding, newest first, under a chart of what the filters leave."""

    change_list_template = "admin/records/safetytrigger/change_list.html"
    list_display = ("found_at", "category", "action", "check_name", "side", "score", "judged_by", "owner", "key_name",
                    "request")  # fmt: skip
    list_display_links = ("found_at",)
    list_filter = (("found_at", admin.DateFieldListFilter), "check_name", CategoryFilter, "action", "side",
                   PolicyFilter, OrganizationFilter, KeyFilter)  # fmt: skip
    lookups = frozenset({"check_name__exact", "category", "action__exact", "side__exact", "policy",
                         "organization__id__exact", "key__id__exact"})  # fmt: skip
    search_fields = ("record",)
    search_help_text = "The id of a message, of a key or of an organisation."
    date_hierarchy = "found_at"
    export_name = "safety-triggers.csv"
    export_columns = (  # never the text
        "found_at", "record_id", "organization_id", "organization__name", "key_id", "key__name", "model", "policy",
        "check_name", "category", "action", "side", "position", "score", "span",
    )  # fmt: skip

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[SafetyTrigger], search_term: str
    ) -> tuple[QuerySet[SafetyTrigger], bool]:
        term = search_term.strip()
        field = _FIELD_OF_PREFIX.get(term.partition("_")[0], "record_id")
        return (queryset.filter(**{field: term}) if term else queryset), False

    def get_fields(self, request: HttpRequest, obj: SafetyTrigger | None = None) -> Any:
        fields = ("found_at", "request", "owner", "key_name", "model", "policy", "check_name", "category", "action",
                  "side", "position", "score", "span")  # fmt: skip
        return (*fields, "visible_text", "text_until") if request.user.has_perm(SEE_TEXT) else fields

    def get_readonly_fields(self, request: HttpRequest, obj: SafetyTrigger | None = None) -> Any:
        return self.get_fields(request, obj)

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        response = super().changelist_view(request, extra_context)
        if isinstance(response, TemplateResponse) and response.context_data and "cl" in response.context_data:
            triggers = response.context_data["cl"].queryset
            response.context_data["chart"] = chart_of(triggers, span_of(request.GET, timezone.now()))
        return response

    @admin.display(description="policy")
    def judged_by(self, trigger: SafetyTrigger) -> str:
        return list_of(self.seen_in, SafetyPolicy, trigger.policy, q=trigger.policy)

    @admin.display(description="request")
    def request(self, trigger: SafetyTrigger) -> str:
        return page_of(self.seen_in, RequestRecord(pk=trigger.record_id), trigger.record_id)

    @admin.display(description="text")
    def visible_text(self, trigger: SafetyTrigger) -> str:
        return trigger.visible_text or "(not kept)"


def links_to(request: HttpRequest, triggers: QuerySet[SafetyTrigger]) -> str:
    """Return a request's triggers, linked."""
    shown = [(page_of(request, row, f"{row.category} ({row.action}, {row.side})"),) for row in triggers[:SHOWN]]
    return format_html_join(mark_safe("<br>"), "{}", shown) or "-"


def span_of(parameters: Mapping[str, str], now: datetime) -> Span:
    """Return what time a list's parameters are about: of a filter by date, of the links to dates, or the usual."""
    begin, end = (_moment(parameters.get(f"found_at__{side}", "")) for side in ("gte", "lt"))
    parts = [int(part) for name in ("year", "month", "day") if (part := parameters.get(f"found_at__{name}"))]
    if parts:
        begin, end = _date(parts), _date([*parts[:-1], parts[-1] + 1])
    end = min(end or now, now)
    return Span.between(min(begin or end - USUAL, end), end)


def _moment(text: str) -> datetime | None:
    moment = parse_datetime(text)
    return moment.replace(tzinfo=moment.tzinfo or UTC) if moment else None


def _date(parts: list[int]) -> datetime:
    """Return the beginning of a year, month or day; the number of the last part may be too high by one."""
    year, month, day = [*parts, 1, 1][:3]
    first = datetime(year + (month - 1) // 12, (month - 1) % 12 + 1, 1, tzinfo=UTC)
    return first + timedelta(days=day - 1)
