"""Request records in the admin: to read, not to change."""

from __future__ import annotations

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from records.models import RequestRecord


def _ms(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f} ms"


@admin.register(RequestRecord)
class RequestRecordAdmin(admin.ModelAdmin[RequestRecord]):
    """One row per request, newest first."""

    list_display = ("id", "created_at", "owner", "caller", "model", "outcome",
                    "input_tokens", "output_tokens", "ttft", "tpot", "total")  # fmt: skip
    list_filter = ("outcome", "model", "organization")
    exclude = ("organization", "key")
    readonly_fields = ("owner", "caller")
    search_fields = ("id__exact",)
    date_hierarchy = "created_at"
    show_full_result_count = False

    def get_queryset(self, request: HttpRequest) -> QuerySet[RequestRecord]:
        return super().get_queryset(request).select_related("organization", "key")

    @admin.display(description="organization", ordering="organization__name")
    def owner(self, record: RequestRecord) -> str:
        return str(record.organization or record.organization_id)

    @admin.display(description="key", ordering="key__name")
    def caller(self, record: RequestRecord) -> str:
        return str(record.key or record.key_id)

    @admin.display(description="TTFT", ordering="ttft_ms")
    def ttft(self, record: RequestRecord) -> str:
        return _ms(record.ttft_ms)

    @admin.display(description="TPOT")
    def tpot(self, record: RequestRecord) -> str:
        return _ms(record.tpot_ms)

    @admin.display(description="total", ordering="total_ms")
    def total(self, record: RequestRecord) -> str:
        return _ms(record.total_ms)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: RequestRecord | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: RequestRecord | None = None) -> bool:
        return False
