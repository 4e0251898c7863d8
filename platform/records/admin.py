"""Request records in the admin: to read, not to change."""

from __future__ import annotations

from django.contrib import admin
from django.http import HttpRequest

from records.models import RequestRecord


def _ms(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f} ms"


@admin.register(RequestRecord)
class RequestRecordAdmin(admin.ModelAdmin[RequestRecord]):
    """One row per request, newest first."""

    list_display = ("id", "created_at", "organization", "key", "model", "outcome",
                    "input_tokens", "output_tokens", "ttft", "tpot", "total")  # fmt: skip
    list_filter = ("outcome", "model", "organization")
    list_select_related = ("organization", "key", "key__organization")
    search_fields = ("id__exact",)
    date_hierarchy = "created_at"
    show_full_result_count = False

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
