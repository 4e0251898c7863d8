"""Organisations in the admin."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.db.models import Count, Field, Q, QuerySet
from django.http import HttpRequest

from accounts import describing
from accounts.admin.access import IN_WORDS, PolicyFilter, TenantAdmin
from accounts.admin.forms import OrganizationForm, empty_choice
from accounts.keys import resume, suspend
from accounts.models import ApiKey, Member, Organization
from accounts.terms import DEFAULT_PRIORITY, LIMITS
from common.links import list_of

USUAL = "A customer gives its keys no more than this: no higher class, no laxer policy."


class MemberInline(admin.TabularInline[Member, Organization]):
    """Who works with an organisation's keys."""

    model = Member
    extra = 0
    autocomplete_fields = ("user",)
    readonly_fields = ("person",)
    verbose_name_plural = "members: staff users who see only what is theirs"

    def get_fields(self, request: HttpRequest, obj: Organization | None = None) -> Any:
        may_name = self.has_add_permission(request, obj) or self.has_change_permission(request, obj)
        return ("user" if may_name else "person", "role")

    @admin.display(description="user")
    def person(self, member: Member) -> str:
        """Name somebody without Django's link, which leads those who only look to a refusal."""
        return str(member.user)


class SuspendedFilter(admin.SimpleListFilter):
    """Working organisations, or suspended ones."""

    title = "state"
    parameter_name = "suspended"

    def lookups(self, request: HttpRequest, model_admin: admin.ModelAdmin[Organization]) -> list[tuple[str, str]]:
        return [("no", "active"), ("yes", "suspended")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Organization]) -> QuerySet[Organization]:
        if self.value() in ("no", "yes"):
            return queryset.filter(suspended_at__isnull=self.value() == "no")
        return queryset


@admin.register(Organization)
class OrganizationAdmin(TenantAdmin[Organization]):
    """Customers. One that has keys stays, since its records name it; suspend it instead."""

    organization_field = "id"
    form = OrganizationForm
    inlines = (MemberInline,)
    list_display = ("name", "state", "key_count", "limits", "priority", "policy")
    list_filter = (SuspendedFilter, "priority", ("policy", PolicyFilter))
    search_fields = ("name", "id")
    readonly_fields = (*IN_WORDS.values(), "id", "state", "key_count", "created_at", "suspended_at")
    actions = ("suspend", "resume")
    fieldsets = (
        (None, {"fields": ("name", "id", "state", "key_count", "created_at")}),
        ("Bounds of all its keys", {"fields": ("scopes", "allowed_models", "expires_at")}),
        (
            "Limits of all its keys together",
            {"fields": (*LIMITS, "shadow"), "description": "Empty means unlimited. Each key may have limits besides."},
        ),
        (
            "What its keys have, unless they say otherwise",
            {"fields": ("priority", "policy"), "description": USUAL},
        ),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Organization]:
        return super().get_queryset(request).annotate(active_keys=Count("keys", filter=Q(keys__revoked_at=None)))

    def formfield_for_choice_field(self, db_field: Field[Any, Any], request: HttpRequest, **kwargs: Any) -> Any:
        return empty_choice(db_field, DEFAULT_PRIORITY)

    @admin.display(description="keys")
    def key_count(self, organization: Organization) -> str:
        if organization._state.adding:
            return "0"
        number = getattr(organization, "active_keys", 0)
        return list_of(self.seen_in, ApiKey, number, organization__id__exact=organization.pk)

    @admin.display
    def state(self, organization: Organization) -> str:
        return organization.state

    @admin.display(description="limits")
    def limits(self, organization: Organization) -> str:
        return describing.limits(organization)

    @admin.action(description="Suspend: refuse all keys of the selected organisations", permissions=["change"])
    def suspend(self, request: HttpRequest, organizations: QuerySet[Organization]) -> None:
        for organization in (found := organizations.filter(suspended_at=None)):
            suspend(organization)
            self.log_change(request, organization, "Suspended.")
        self.message_user(request, f"{len(found)} suspended.", messages.SUCCESS)

    @admin.action(description="Resume the selected organisations", permissions=["change"])
    def resume(self, request: HttpRequest, organizations: QuerySet[Organization]) -> None:
        for organization in (found := organizations.exclude(suspended_at=None)):
            resume(organization)
            self.log_change(request, organization, "Resumed.")
        self.message_user(request, f"{len(found)} resumed.", messages.SUCCESS)

    def has_delete_permission(self, request: HttpRequest, obj: Organization | None = None) -> bool:
        return super().has_delete_permission(request, obj) and not (obj and obj.keys.exists())
