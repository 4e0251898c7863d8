"""Organisations and keys in the admin. A key made here is shown once, in the message after saving."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.forms import ModelForm
from django.http import HttpRequest
from django.utils import timezone

from accounts.keys import create_key
from accounts.models import ApiKey, Organization


@admin.register(Organization)
class OrganizationAdmin(admin.ModelAdmin[Organization]):
    """Customers. One that has keys stays, since its records name it; revoke its keys instead."""

    list_display = ("name", "id", "created_at")
    search_fields = ("name", "id")
    readonly_fields = ("id", "created_at")

    def has_delete_permission(self, request: HttpRequest, obj: Organization | None = None) -> bool:
        return super().has_delete_permission(request, obj) and not (obj and obj.keys.exists())


@admin.register(ApiKey)
class ApiKeyAdmin(admin.ModelAdmin[ApiKey]):
    """Keys: made, listed, renamed and revoked; never shown again, and never deleted, since records name them."""

    list_display = ("name", "prefix", "organization", "created_at", "active")
    list_filter = ("organization",)
    list_select_related = ("organization",)
    search_fields = ("name", "prefix")
    fields = ("organization", "name", "prefix", "scopes", "created_at", "revoked_at")
    readonly_fields = ("prefix", "scopes", "created_at", "revoked_at")
    actions = ("revoke",)

    @admin.display(boolean=True)
    def active(self, key: ApiKey) -> bool:
        return key.active

    @admin.action(description="Revoke the selected keys", permissions=["change"])
    def revoke(self, request: HttpRequest, keys: QuerySet[ApiKey]) -> None:
        count = keys.filter(revoked_at=None).update(revoked_at=timezone.now())
        self.message_user(request, f"{count} revoked.", messages.SUCCESS)

    def has_delete_permission(self, request: HttpRequest, obj: ApiKey | None = None) -> bool:
        return False

    def get_readonly_fields(self, request: HttpRequest, obj: ApiKey | None = None) -> Any:
        return (*self.readonly_fields, "organization") if obj else self.readonly_fields

    def save_model(self, request: HttpRequest, obj: ApiKey, form: ModelForm[ApiKey], change: bool) -> None:
        if change:
            super().save_model(request, obj, form, change)
            return
        made, plain = create_key(name=obj.name, organization=obj.organization.name)
        obj.pk, obj.prefix = made.pk, made.prefix
        self.message_user(request, f"The key, shown this once: {plain}", messages.WARNING)
