"""Policies and blocklists in the admin. What is built in is to be read and copied."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.contrib import admin, messages
from django.db import transaction
from django.db.models import Count, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from safety.forms import CHECKS, RuleForm
from safety.models import NAME_LIMIT, Blocklist, SafetyPolicy, SafetyRule


class RuleInline(admin.TabularInline[SafetyRule, SafetyPolicy]):
    """A policy's rules, in order."""

    model = SafetyRule
    form = RuleForm
    extra = 0
    fields = ("side", "position", "check_name", "categories", "threshold", "model", "action")


@admin.register(SafetyPolicy)
class SafetyPolicyAdmin(admin.ModelAdmin[SafetyPolicy]):
    """Policies. Gateways and workers follow a change within seconds; what runs keeps the policy it began with."""

    list_display = ("name", "description", "strictness", "rule_count", "built_in")
    list_filter = ("built_in",)
    search_fields = ("name", "description")
    readonly_fields = ("built_in", "used_by", "all_blocklists")
    filter_horizontal = ("blocklists",)
    inlines = (RuleInline,)
    actions = ("copy",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[SafetyPolicy]:
        return super().get_queryset(request).annotate(num_rules=Count("rules"))

    def get_fields(self, request: HttpRequest, obj: SafetyPolicy | None = None) -> Any:
        common = ("name", "description", "strictness", "lookahead_tokens", "keep_text_days")
        if obj is None:
            return (*common, "blocklists")
        return (*common, "all_blocklists" if obj.built_in else "blocklists", "built_in", "used_by")

    def render_change_form(self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        return super().render_change_form(request, context | {"checks": CHECKS}, *args, **kwargs)

    def has_change_permission(self, request: HttpRequest, obj: SafetyPolicy | None = None) -> bool:
        return super().has_change_permission(request, obj) and not (obj and obj.built_in)

    def has_delete_permission(self, request: HttpRequest, obj: SafetyPolicy | None = None) -> bool:
        return super().has_delete_permission(request, obj) and not (obj and obj.built_in)

    def get_deleted_objects(self, objs: Iterable[SafetyPolicy], request: HttpRequest) -> Any:
        deleted, count, missing, protected = super().get_deleted_objects(objs, request)  # type: ignore[arg-type]
        return deleted, count, missing, [*protected, *filter(None, (policy.ties() for policy in objs))]

    @admin.action(description="Copy into a new policy", permissions=["add"])
    def copy(self, request: HttpRequest, policies: QuerySet[SafetyPolicy]) -> HttpResponse | None:
        made = [self._copied(request, policy) for policy in policies]
        self.message_user(request, f"Made {', '.join(policy.name for policy in made)}.", messages.SUCCESS)
        if len(made) > 1:
            return None
        return HttpResponseRedirect(reverse("admin:safety_safetypolicy_change", args=[made[0].pk]))

    @transaction.atomic
    def _copied(self, request: HttpRequest, policy: SafetyPolicy) -> SafetyPolicy:
        chosen = Blocklist.objects.filter(active=True) if policy.built_in else policy.blocklists.all()
        copy = SafetyPolicy.objects.create(
            name=_free_name(policy.name),
            description=policy.description,
            strictness=policy.strictness,
            lookahead_tokens=policy.lookahead_tokens,
            keep_text_days=policy.keep_text_days,
        )
        copy.blocklists.set(chosen)
        for rule in policy.rules.all():
            rule.pk, rule.policy = None, copy
            rule.save(force_insert=True)
        self.log_addition(request, copy, f"Copied from {policy.name}.")
        return copy

    @admin.display(description="rules", ordering="num_rules")
    def rule_count(self, policy: SafetyPolicy) -> int:
        return int(getattr(policy, "num_rules", 0))

    @admin.display(description="used by")
    def used_by(self, policy: SafetyPolicy) -> str:
        return ", ".join(policy.users()) or "-"

    @admin.display(description="blocklists")
    def all_blocklists(self, policy: SafetyPolicy) -> str:
        return "all that are active"


@admin.register(Blocklist)
class BlocklistAdmin(admin.ModelAdmin[Blocklist]):
    """Blocklists."""

    list_display = ("name", "about", "phrase_count", "active")
    list_filter = ("active",)
    search_fields = ("name", "about")
    fields = ("name", "about", "active", "phrases")

    @admin.display(description="phrases")
    def phrase_count(self, blocklist: Blocklist) -> int:
        return len(blocklist.phrase_list)


def _free_name(name: str) -> str:
    """Return a name for a copy that nobody has."""
    taken = set(SafetyPolicy.objects.values_list("name", flat=True))
    endings = ("-copy", *(f"-copy-{number}" for number in range(2, len(taken) + 3)))
    return next(free for ending in endings if (free := name[: NAME_LIMIT - len(ending)] + ending) not in taken)
