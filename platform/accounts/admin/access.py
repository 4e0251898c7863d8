"""Who may do what: operators by Django's permissions, everywhere; members by their role, in their organisations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, TypeVar, cast

from django.contrib import admin
from django.contrib.admin.widgets import AdminSplitDateTime
from django.db.models import DateTimeField, Model, QuerySet, prefetch_related_objects
from django.http import HttpRequest

from accounts.models import Member
from common.links import LinkingAdmin

M = TypeVar("M", bound=Model)
IN_WORDS = {"scopes": "scope_list", "allowed_models": "model_list"}  # fields that are JSON, to those who only read


def roles_of(request: HttpRequest) -> dict[str, str]:
    """Return the organisations, by id, that the user is a member of, and as what."""
    user = cast(Any, request.user)
    if not user.is_active:
        return {}
    prefetch_related_objects([user], "memberships")  # once a request
    return {member.organization_id: member.role for member in user.memberships.all()}


class Moment(AdminSplitDateTime):
    """Django's two fields of a moment, each with a name for those who hear the page."""

    def __init__(self, attrs: dict[str, Any] | None = None) -> None:
        super().__init__(attrs)
        for widget, what in zip(self.widgets, ("Date", "Time"), strict=True):
            widget.attrs["aria-label"] = what


class PolicyFilter(admin.AllValuesFieldListFilter):
    """By safety policy; to have none of one's own is a choice, too."""

    def choices(self, changelist: Any) -> Iterator[Any]:
        for choice in super().choices(changelist):
            yield choice | {"display": choice["display"] or "none of its own"}


class TenantAdmin(LinkingAdmin[M]):
    """Shows members what belongs to their organisations."""

    formfield_overrides: ClassVar[Any] = {DateTimeField: {"widget": Moment}}
    organization_field: ClassVar[str]  # what names the organisation's id, in a query and on the object

    def is_operator(self, request: HttpRequest) -> bool:
        """Say whether the user sees the things of all organisations."""
        return super().has_view_permission(request)

    def has_module_permission(self, request: HttpRequest) -> bool:
        return super().has_module_permission(request) or bool(roles_of(request))

    def has_view_permission(self, request: HttpRequest, obj: M | None = None) -> bool:
        return super().has_view_permission(request, obj) or self.has_role(request, obj, set(Member.Role.values))

    def has_role(self, request: HttpRequest, obj: M | None, among: set[str]) -> bool:
        """Say whether the user has one of some roles where an object belongs, or anywhere."""
        roles = roles_of(request)
        if obj is None:
            return bool(among & set(roles.values()))
        return roles.get(getattr(obj, self.organization_field)) in among

    def get_queryset(self, request: HttpRequest) -> QuerySet[M]:
        found = super().get_queryset(request)
        if self.is_operator(request):
            return found
        return found.filter(**{f"{self.organization_field}__in": list(roles_of(request))})

    def get_fieldsets(self, request: HttpRequest, obj: M | None = None) -> Any:
        groups: Any = super().get_fieldsets(request, obj)
        if self.has_change_permission(request, obj):
            return groups
        return [(name, {**group, "fields": [IN_WORDS.get(f, f) for f in group["fields"]]}) for name, group in groups]

    @admin.display(description="scopes")
    def scope_list(self, obj: Any) -> str:
        return ", ".join(obj.scopes)

    @admin.display(description="allowed models")
    def model_list(self, obj: Any) -> str:
        return ", ".join(obj.allowed_models or ("all",))
