"""Keys and organisations as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast, get_args

from rest_framework import serializers

from accounts.models import ApiKey, Organization, model_names
from accounts.terms import (
    DEFAULT_POLICY,
    DEFAULT_PRIORITY,
    LARGEST_LIMIT,
    LIMITS,
    MODELS_LIMIT,
    NAME_LIMIT,
    PRIORITIES,
    SCOPES,
    State,
)
from api.strict_fields import Flag, Moment, NameOrNull, Text, WholeNumber, WordOrNull, Words
from common.errors import InvalidRequest
from inference.protocol.outcomes import Priority
from safety.models import policy_names

LONGEST_OVERLAP_S = 30 * 86400
OVERLAP_S = 86400


class StrictSerializer(serializers.Serializer[Any]):
    """Refuses fields that it does not know, or that cannot be set."""

    def to_internal_value(self, data: Mapping[str, Any]) -> Any:
        settable = [name for name, field in self.fields.items() if not field.read_only]
        for name in data:
            if name in self.fields and name not in settable:
                raise InvalidRequest(f"{name}: this cannot be set.", code="unknown_parameter")
            if name not in settable:
                raise InvalidRequest(
                    f"{name}: no such field; expected {', '.join(settable)}.", code="unknown_parameter"
                )
        return super().to_internal_value(data)


def limit(name: str) -> WholeNumber:
    about = getattr(ApiKey._meta.get_field(name), "help_text", "")
    return WholeNumber(min_value=1, max_value=LARGEST_LIMIT, allow_null=True, required=False, help_text=about)


class KeySerializer(StrictSerializer, serializers.ModelSerializer[ApiKey]):
    """A key, without its secret. Null limits are unlimited; null `priority` and `policy` are the organisation's."""

    name = Text(max_length=NAME_LIMIT)
    scopes = Words(SCOPES, most=len(SCOPES), expected=f"expected some of {', '.join(SCOPES)}.", required=False)
    allowed_models = Words(
        most=MODELS_LIMIT,
        expected=f"expected 1 to {MODELS_LIMIT} names of models, or null for all.",
        allow_null=True,
        required=False,
        validators=[model_names],
    )
    rpm, itpm, otpm, max_streams = limit("rpm"), limit("itpm"), limit("otpm"), limit("max_streams")
    budget_tokens_day, budget_tokens_month = limit("budget_tokens_day"), limit("budget_tokens_month")
    budget_tokens = limit("budget_tokens")
    shadow = Flag(required=False, help_text="These limits count without refusing anything.")
    priority = WordOrNull(PRIORITIES, required=False)
    policy = NameOrNull(policy_names, required=False)
    expires_at = Moment(allow_null=True, required=False)
    state = serializers.ChoiceField(choices=get_args(State), read_only=True)

    class Meta:
        model = ApiKey
        fields = (
            "id", "name", "prefix", "state", "scopes", "allowed_models", *LIMITS, "shadow", "priority", "policy",
            "created_at", "expires_at", "last_used_at", "revoked_at", "old_prefix", "old_until",
        )  # fmt: skip
        read_only_fields = ("id", "prefix", "created_at", "last_used_at", "revoked_at", "old_prefix", "old_until")


class NewKeySerializer(KeySerializer):
    """A key that has just been made or rotated: the only answer that shows it."""

    key = serializers.CharField(read_only=True, help_text="The key itself. It is not shown again.")

    class Meta(KeySerializer.Meta):
        fields = (*KeySerializer.Meta.fields, "key")  # type: ignore[assignment]  # the stubs take its length for fixed


class RotationSerializer(StrictSerializer):
    """How a key is rotated: how long its present text works on, in seconds."""

    overlap_s = WholeNumber(
        min_value=0, max_value=LONGEST_OVERLAP_S, default=OVERLAP_S, help_text="How long the present key works on."
    )


class OrganizationSerializer(serializers.ModelSerializer[Organization]):
    """An organisation: what bounds all of its keys, and the limits of all together."""

    scopes = serializers.ListField(child=serializers.ChoiceField(choices=SCOPES), read_only=True)
    allowed_models = serializers.ListField(child=serializers.CharField(), allow_null=True, read_only=True)
    priority = serializers.SerializerMethodField()
    policy = serializers.SerializerMethodField()

    class Meta:
        model = Organization
        fields = (
            "id",
            "name",
            "scopes",
            "allowed_models",
            *LIMITS,
            "shadow",
            "priority",
            "policy",
            "created_at",
            "expires_at",
        )
        read_only_fields = fields

    def get_priority(self, organization: Organization) -> Priority:
        return cast(Priority, organization.priority or DEFAULT_PRIORITY)

    def get_policy(self, organization: Organization) -> str:
        return organization.policy or DEFAULT_POLICY
