"""Request records in the admin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.safestring import mark_safe

from records.admin.filters import KeyFilter, ModelFilter, OrganizationFilter, of_key
from records.admin.longlist import LongListAdmin
from records.admin.triggers import links_to
from records.models import RequestRecord
from records.waterfall import waterfall_of


def _ms(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f} ms"


def duration(field: str, name: str) -> Callable[[RequestRecord], str]:
    """Make a field of a time; short ones are told to a tenth."""

    @admin.display(description=name)
    def shown(record: RequestRecord) -> str:
        value = getattr(record, field)
        return "-" if value is None else f"{value:,.1f} ms"

    return shown


def number(field: str, name: str = "") -> Callable[[RequestRecord], str]:
    """Make a field of a large number."""

    @admin.display(description=name or field.replace("_", " "))
    def shown(record: RequestRecord) -> str:
        value = getattr(record, field)
        return "-" if value is None else f"{value:,}"

    return shown


def _reader(late_ms: float, sent: int, has_resumed: int) -> tuple[str, str, str]:
    """Return what is known of a reader, in words."""
    return f"{sent:,} bytes", f", came {late_ms:,.0f} ms later" if late_ms else "", ", resumed" * bool(has_resumed)


@admin.register(RequestRecord)
class RequestRecordAdmin(LongListAdmin[RequestRecord]):
    """One row per request, newest first."""

    list_display = ("id", "at", "asked_by", "model", "outcome", "tokens", "ttft", "tpot", "total")
    list_filter = (("created_at", admin.DateFieldListFilter), "outcome", ModelFilter, OrganizationFilter, KeyFilter)
    lookups = frozenset({"id", "outcome__exact", "model", "organization__id__exact", "key__id__exact"})
    sortable_by = ("at",)
    what: ClassVar[Any] = ("id", "owner", "key_name", "model", "created_at", "finished_at", "outcome")
    groups: ClassVar[Any] = (  # the stages and the checks are in the waterfall
        ("Tokens", (number("input_tokens"), number("cached_tokens", "of these, cached"), number("output_tokens"),
                    number("held_tokens", "most held by safety"))),
        ("Times", (duration("ttft_ms", "TTFT"), duration("tpot_ms", "TPOT"), duration("tbt_p99_ms", "TBT p99"),
                   duration("queue_ms", "queue"), duration("prefill_ms", "prefill"),
                   duration("batch_wait_ms", "of this, until the batch"), duration("generation_ms", "generation"),
                   duration("held_ms", "held by safety"), duration("stream_ms", "stream"),
                   duration("total_ms", "total"))),
        ("Delivery", ("worker", "attempts", "gateway", "streamed", number("bytes_sent"), "resumes", "read_by")),
    )  # fmt: skip
    search_fields = ("id",)
    search_help_text = "The id of a message, of a key or of an organisation."
    date_hierarchy = "created_at"
    export_name = "requests.csv"
    export_columns = (
        "id", "created_at", "finished_at", "organization_id", "organization__name", "key_id", "key__name", "model",
        "outcome", "input_tokens", "cached_tokens", "output_tokens", "attempts", "queue_ms", "prefill_ms", "ttft_ms",
        "tpot_ms", "tbt_p99_ms", "total_ms", "streamed", "bytes_sent", "resumes", "worker", "gateway",
    )  # fmt: skip

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[RequestRecord], search_term: str
    ) -> tuple[QuerySet[RequestRecord], bool]:
        term = search_term.strip()
        if term.startswith("key_"):
            return of_key(queryset, term), False
        if term.startswith("org_"):
            return queryset.filter(organization=term), False
        return (queryset.filter(pk=term) if term else queryset), False

    @admin.display(description="UTC", ordering="created_at")
    def at(self, record: RequestRecord) -> str:
        return f"{record.created_at:%Y-%m-%d %H:%M:%S}"

    @admin.display(description="organisation, key")
    def asked_by(self, record: RequestRecord) -> str:
        return format_html("{}<br>{}", self.owner(record), self.key_name(record))

    def get_fieldsets(self, request: HttpRequest, obj: RequestRecord | None = None) -> Any:
        seen = ("safety_triggers",) if request.user.has_perm("records.view_safetytrigger") else ()
        return [(name, {"fields": fields}) for name, fields in ((None, (*self.what, *seen)), *self.groups)]

    def get_readonly_fields(self, request: HttpRequest, obj: RequestRecord | None = None) -> Any:
        return [field for _, group in self.get_fieldsets(request, obj) for field in group["fields"]]

    def render_change_form(self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        waterfall = waterfall_of(context["original"]) if context.get("original") else None
        return super().render_change_form(request, context | {"waterfall": waterfall}, *args, **kwargs)

    @admin.display(description="safety triggers")
    def safety_triggers(self, record: RequestRecord) -> str:
        return links_to(self.seen_in, record.triggers.all())

    @admin.display(description="readers")
    def read_by(self, record: RequestRecord) -> str:
        readers = ((name, *_reader(*facts)) for name, facts in record.readers.items())
        return format_html_join(mark_safe("<br>"), "{}: {}{}{}", readers) or "-"

    @admin.display(description="tokens")
    def tokens(self, record: RequestRecord) -> str:
        return f"{record.input_tokens:,} → {record.output_tokens:,}"

    @admin.display(description="TTFT")
    def ttft(self, record: RequestRecord) -> str:
        return _ms(record.ttft_ms)

    @admin.display(description="TPOT")
    def tpot(self, record: RequestRecord) -> str:
        return _ms(record.tpot_ms)

    @admin.display(description="total")
    def total(self, record: RequestRecord) -> str:
        return _ms(record.total_ms)
