"""Keys in the admin: made, changed, rotated and revoked. The text of one is shown once, on a page of its own."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.contrib import admin, messages
from django.db.models import Field, ForeignKey, Q, QuerySet
from django.forms import ModelForm
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils import timezone

from accounts import describing
from accounts.admin.access import IN_WORDS, PolicyFilter, TenantAdmin, roles_of
from accounts.admin.forms import KeyForm, NewKeyForm, empty_choice
from accounts.keys import KeyIsOver, issue, revoke, rotate
from accounts.models import ApiKey, Member, Organization
from accounts.terms import LIMITS
from common.links import page_of

OVERLAPS = {
    "0": ("ends now", timedelta()),
    "1h": ("works for 1 hour more", timedelta(hours=1)),
    "1d": ("works for 1 day more", timedelta(days=1)),
    "7d": ("works for 7 days more", timedelta(days=7)),
    "30d": ("works for 30 days more", timedelta(days=30)),
}
USUAL = "1d"
AT_ONCE = 100


class StateFilter(admin.SimpleListFilter):
    """Keys by how they stand."""

    title = "state"
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: admin.ModelAdmin[ApiKey]) -> list[tuple[str, str]]:
        return [(state, state) for state in ("active", "suspended", "expired", "revoked")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[ApiKey]) -> QuerySet[ApiKey]:
        now = timezone.now()
        over = Q(expires_at__lte=now) | Q(organization__expires_at__lte=now)
        match self.value():
            case "revoked":
                return queryset.exclude(revoked_at=None)
            case "expired":
                return queryset.filter(over, revoked_at=None)
            case "suspended":
                return queryset.filter(revoked_at=None).exclude(over).exclude(organization__suspended_at=None)
            case "active":
                return queryset.filter(revoked_at=None, organization__suspended_at=None).exclude(over)
        return queryset


@admin.register(ApiKey)
class ApiKeyAdmin(TenantAdmin[ApiKey]):
    """Keys; never deleted, since records name them. Members of the role admin make and change those of theirs."""

    organization_field = "organization_id"
    form = KeyForm
    list_display = ("name", "prefix", "owner", "scope_list", "how_it_stands", "limits", "last_used")
    list_filter = (StateFilter, "priority", ("policy", PolicyFilter), "shadow")
    list_select_related = ("organization",)
    search_fields = ("name", "prefix", "old_prefix", "organization__name")
    search_help_text = "Name, visible prefix or organisation"
    autocomplete_fields = ("organization",)
    readonly_fields = (
        *IN_WORDS.values(),
        "owner",
        "id",
        "prefix",
        "how_it_stands",
        "previous",
        "created_at",
        "last_used",
        "revoked_at",
    )
    actions = ("rotate", "revoke")
    change_form_template = "admin/accounts/apikey/change_form.html"
    fieldsets = (
        (None, {"fields": ("owner", "name")}),
        ("State", {"fields": ("prefix", "how_it_stands", "previous", "id", "created_at", "last_used", "revoked_at")}),
        ("What it may do", {"fields": ("scopes", "allowed_models", "expires_at", "priority", "policy")}),
        (
            "Its own limits",
            {"fields": (*LIMITS, "shadow"), "description": "Empty means unlimited. Its organisation's count as well."},
        ),
    )

    # -- who

    def has_add_permission(self, request: HttpRequest) -> bool:
        return super().has_add_permission(request) or self.has_role(request, None, {Member.Role.ADMIN})

    def has_change_permission(self, request: HttpRequest, obj: ApiKey | None = None) -> bool:
        return super().has_change_permission(request, obj) or self.has_role(request, obj, {Member.Role.ADMIN})

    def has_delete_permission(self, request: HttpRequest, obj: ApiKey | None = None) -> bool:
        return False

    def may_exceed(self, request: HttpRequest) -> bool:
        """Say whether the user may give a key more than its organisation has: operators may."""
        return admin.ModelAdmin.has_change_permission(self, request)

    # -- the form

    def get_form(self, request: HttpRequest, obj: ApiKey | None = None, change: bool = False, **kwargs: Any) -> Any:
        base = KeyForm if obj else NewKeyForm
        bounded = type(base.__name__, (base,), {"bounded": not self.may_exceed(request)})
        return super().get_form(request, obj, change, **kwargs | {"form": bounded})

    def get_fieldsets(self, request: HttpRequest, obj: ApiKey | None = None) -> Any:
        if obj:
            return super().get_fieldsets(request, obj)
        _, _, *rest = self.fieldsets
        return ((None, {"fields": ("organization", "name", "new_id")}), *rest)

    def formfield_for_foreignkey(self, db_field: ForeignKey[Any, Any], request: HttpRequest, **kwargs: Any) -> Any:
        if db_field.name == "organization" and not admin.ModelAdmin.has_add_permission(self, request):
            mine = [name for name, role in roles_of(request).items() if role == Member.Role.ADMIN]
            kwargs["queryset"] = Organization.objects.filter(pk__in=mine)
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def formfield_for_choice_field(self, db_field: Field[Any, Any], request: HttpRequest, **kwargs: Any) -> Any:
        return empty_choice(db_field, "the organisation's")

    def render_change_form(self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        context |= {"show_save_and_add_another": False, "show_save_and_continue": not kwargs.get("add")}
        return super().render_change_form(request, context, *args, **kwargs)

    # -- what it does

    def save_model(self, request: HttpRequest, obj: ApiKey, form: ModelForm[ApiKey], change: bool) -> None:
        if change:
            obj.save(update_fields=[name for name in form.changed_data if name in form.cleaned_data])
            return
        obj.pk = form.cleaned_data["new_id"]
        obj.plain = issue(obj)

    def response_add(self, request: HttpRequest, obj: ApiKey, post_url_continue: str | None = None) -> HttpResponse:
        return self._show(request, "A new key", [(obj, obj.plain)])

    @admin.action(description="Rotate: give each a new text", permissions=["change"])
    def rotate(self, request: HttpRequest, keys: QuerySet[ApiKey]) -> HttpResponse | None:
        found = self._open(request, keys)
        if not found:
            return None
        if "confirmed" not in request.POST:
            return self._ask(request, "rotate", found, overlaps=[(name, text) for name, (text, _) in OVERLAPS.items()])
        text, overlap = OVERLAPS.get(request.POST.get("overlap", ""), OVERLAPS[USUAL])
        shown = []
        for key in found:
            if request.POST.get(f"prefix_{key.pk}") != key.prefix:
                self.message_user(
                    request, f"{key.name} was rotated in the meantime: it stays as it is.", messages.ERROR
                )
                continue
            try:
                shown.append((key, rotate(key, overlap=overlap)))
                self.log_change(request, key, f"Rotated; the text before {text}.")
            except KeyIsOver as error:
                self.message_user(request, str(error), messages.ERROR)
        return self._show(request, "Rotated", shown) if shown else None

    @admin.action(description="Revoke: refuse them for good", permissions=["change"])
    def revoke(self, request: HttpRequest, keys: QuerySet[ApiKey]) -> HttpResponse | None:
        found = self._open(request, keys)
        if not found:
            return None
        if "confirmed" not in request.POST:
            return self._ask(request, "revoke", found)
        for key in found:
            try:
                revoke(key)
                self.log_change(request, key, "Revoked.")
            except KeyIsOver as error:
                self.message_user(request, str(error), messages.ERROR)
        self.message_user(request, f"{len(found)} revoked.", messages.SUCCESS)
        return None

    def _open(self, request: HttpRequest, keys: QuerySet[ApiKey]) -> list[ApiKey]:
        """Return those of some keys that can be changed, and by this user; tell of the others."""
        chosen = list(keys.select_related("organization")[: AT_ONCE + 1])
        if len(chosen) > AT_ONCE:
            self.message_user(request, f"Choose {AT_ONCE} keys at most.", messages.ERROR)
            return []
        found = [key for key in chosen if key.active and self.has_change_permission(request, key)]
        if left := len(chosen) - len(found):
            self.message_user(request, f"{left} left out: revoked already, or not yours to change.", messages.WARNING)
        return found

    def _ask(self, request: HttpRequest, action: str, keys: list[ApiKey], **more: Any) -> HttpResponse:
        asked = {"title": f"{action.capitalize()} {len(keys)} key{'s' if len(keys) > 1 else ''}", "action": action}
        context = self.admin_site.each_context(request) | asked | {"opts": self.opts, "keys": keys, "usual": USUAL}
        return TemplateResponse(request, "admin/accounts/apikey/confirm.html", context | more)

    def _show(self, request: HttpRequest, title: str, shown: list[tuple[ApiKey, str]]) -> HttpResponse:
        """Answer with the page that has the keys in plain: the only one, and kept nowhere."""
        context = self.admin_site.each_context(request) | {"title": title, "opts": self.opts, "shown": shown}
        response = TemplateResponse(request, "admin/accounts/apikey/shown_once.html", context)
        response["Cache-Control"] = "no-store"
        return response

    # -- the columns

    @admin.display(description="organisation", ordering="organization__name")
    def owner(self, key: ApiKey) -> str:
        return page_of(self.seen_in, key.organization, key.organization)

    @admin.display(description="state")
    def how_it_stands(self, key: ApiKey) -> str:
        return describing.state(key)

    @admin.display(description="limits")
    def limits(self, key: ApiKey) -> str:
        return describing.limits(key)

    @admin.display(description="last used", ordering="last_used_at")
    def last_used(self, key: ApiKey) -> str:
        return describing.ago(key.last_used_at)

    @admin.display(description="text before the rotation")
    def previous(self, key: ApiKey) -> str:
        return f"{key.old_prefix}… works until {key.overlap:%Y-%m-%d %H:%M} UTC" if key.overlap else "-"
