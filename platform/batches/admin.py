"""Batches in the admin: to look at, and to cancel."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html

from accounts.admin.access import TenantAdmin, roles_of
from accounts.models import Member
from batches.ending import cancel
from batches.models import Batch
from common.links import page_of


class StatusFilter(admin.SimpleListFilter):
    """Batches by how they stand."""

    title = "status"
    parameter_name = "status"

    def lookups(self, request: HttpRequest, model_admin: admin.ModelAdmin[Batch]) -> list[tuple[str, str]]:
        return [(status, status.replace("_", " ")) for status in ("in_progress", "canceling", "ended")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Batch]) -> QuerySet[Batch]:
        match self.value():
            case "in_progress":
                return queryset.filter(ended_at=None, cancel_initiated_at=None)
            case "canceling":
                return queryset.filter(ended_at=None, cancel_initiated_at__isnull=False)
            case "ended":
                return queryset.filter(ended_at__isnull=False)
        return queryset


@admin.register(Batch)
class BatchAdmin(TenantAdmin[Batch]):
    """One row per batch, newest first. What was asked and answered is not shown."""

    organization_field = "organization_id"
    list_display = ("id", "created_at", "asked_by", "how_it_stands", "total",
                    "processing", "succeeded", "errored", "canceled", "expired")  # fmt: skip
    list_filter = (StatusFilter,)  # a list of organisations would show members the names of others
    list_select_related = ("organization", "key")
    exclude = ("organization", "key")
    readonly_fields = ("owner", "key_name")
    search_fields = ("id__exact", "organization__name")
    search_help_text = "Id or organisation"
    date_hierarchy = "created_at"
    show_full_result_count = False
    actions = ("cancel_batches",)

    class Media:
        css: ClassVar[Any] = {"all": ["common/list.css"]}

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        return super().changelist_view(request, (extra_context or {}) | {"is_nav_sidebar_enabled": False})

    @admin.display(description="organisation, key", ordering="organization__name")
    def asked_by(self, batch: Batch) -> str:
        return format_html("{}<br>{}", self.owner(batch), self.key_name(batch))

    @admin.display(description="organisation")
    def owner(self, batch: Batch) -> str:
        return page_of(self.seen_in, batch.organization, batch.organization)

    @admin.display(description="key")
    def key_name(self, batch: Batch) -> str:
        return page_of(self.seen_in, batch.key, batch.key.name)

    @admin.display(description="status")
    def how_it_stands(self, batch: Batch) -> str:
        return batch.status.replace("_", " ")

    @admin.action(description="Cancel selected batches", permissions=["cancel"])
    def cancel_batches(self, request: HttpRequest, queryset: QuerySet[Batch]) -> None:
        if not self.is_canceller(request):
            own = [organization for organization, role in roles_of(request).items() if role == Member.Role.ADMIN]
            queryset = queryset.filter(organization_id__in=own)
        canceled = cancel(queryset)
        messages.info(request, f"Canceling {canceled} {'batch' if canceled == 1 else 'batches'}.")

    def is_canceller(self, request: HttpRequest) -> bool:
        """Say whether the user may cancel the batches of all organisations."""
        return super().has_change_permission(request)

    def has_cancel_permission(self, request: HttpRequest) -> bool:
        return self.is_canceller(request) or self.has_role(request, None, {Member.Role.ADMIN})

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Batch | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Batch | None = None) -> bool:
        return False
