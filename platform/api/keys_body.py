"""Keys and organisations as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rest_framework import serializers

from accounts.models import ApiKey, Organization, model_names
from accounts.terms import (
    DEFAULT_POLICY,
    DEFAULT_PRIORITY,
    LARGEST_LIMIT,
    LIMITS,
    MODELS_LIMIT,
    NAME_LIMIT,
    POLICIES,
    PRIORITIES,
    SCOPES,
)
from api.strict_fields import Flag, Moment, Text, WholeNumber, WordOrNull, Words
from common.errors import InvalidRequest

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


def limit() -> WholeNumber:
    return WholeNumber(min_value=1, max_value=LARGEST_LIMIT, allow_null=True, required=False)


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
    rpm, itpm, otpm, max_streams = limit(), limit(), limit(), limit()
    budget_tokens_day, budget_tokens_month, budget_tokens = limit(), limit(), limit()
    shadow = Flag(required=False)
    priority = WordOrNull(PRIORITIES, required=False)
    policy = WordOrNull(POLICIES, required=False)
    expires_at = Moment(allow_null=True, required=False)
    state = serializers.CharField(read_only=True)

    class Meta:
        model = ApiKey
        fields = (
            "id", "name", "prefix", "state", "scopes", "allowed_models", *LIMITS, "shadow", "priority", "policy",
            "created_at", "expires_at", "last_used_at", "revoked_at", "old_prefix", "old_until",
        )  # fmt: skip
        read_only_fields = ("id", "prefix", "created_at", "last_used_at", "revoked_at", "old_prefix", "old_until")


class RotationSerializer(StrictSerializer):
    """How a key is rotated: how long its present text works on, in seconds."""

    overlap_s = WholeNumber(min_value=0, max_value=LONGEST_OVERLAP_S, default=OVERLAP_S)


class OrganizationSerializer(serializers.ModelSerializer[Organization]):
    """An organisation: what bounds all of its keys, and the limits of all together."""

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

    def get_priority(self, organization: Organization) -> str:
        return organization.priority or DEFAULT_PRIORITY

    def get_policy(self, organization: Organization) -> str:
        return organization.policy or DEFAULT_POLICY
