"""Tenants: organisations, their members, and the keys they call with."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models
from django.utils import timezone

from accounts.terms import (
    LARGEST_LIMIT,
    MODEL_NAME_LIMIT,
    MODELS_LIMIT,
    NAME_LIMIT,
    PRIORITIES,
    SCOPES,
    State,
)
from common.ids import new_id
from safety.models import NAME_LIMIT as POLICY_NAME_LIMIT
from safety.models import known_policy

ONE_LINE = re.compile(r"\A[^\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]*\Z")
one_line = RegexValidator(ONE_LINE.pattern, "A name has no line breaks or control characters.")


def new_organization_id() -> str:
    return new_id("org")


def new_key_id() -> str:
    return new_id("key")


def default_scopes() -> list[str]:
    return ["inference", "usage"]


def all_scopes() -> list[str]:
    return list(SCOPES)


def known_scopes(value: Any) -> None:
    """Raise `ValidationError` for what is no list of scopes."""
    if not (isinstance(value, list) and value and all(scope in SCOPES for scope in value)):
        raise ValidationError(f"expected some of {', '.join(SCOPES)}.")


def model_names(value: Any) -> None:
    """Raise `ValidationError` for what is no list of models' names."""
    if not (isinstance(value, list) and 0 < len(value) <= MODELS_LIMIT and all(map(_is_name, value))):
        raise ValidationError(f"expected 1 to {MODELS_LIMIT} names of models, or none of this for all models.")


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= MODEL_NAME_LIMIT and ONE_LINE.fullmatch(value) is not None


def limit(label: str, about: str) -> models.PositiveBigIntegerField[Any, Any]:
    """Declare one limit; null is unlimited."""
    within = [MinValueValidator(1), MaxValueValidator(LARGEST_LIMIT)]
    return models.PositiveBigIntegerField(label, null=True, blank=True, validators=within, help_text=about)


class Limits(models.Model):
    """What may be used: of one key, or of all keys of an organisation together. A request needs room in both.

    Null is unlimited. Rates are token buckets that hold a minute's worth and refill all the time; budgets count input
    and output tokens together, days and months are UTC's. Where `priority` or `policy` is "", the key has its
    organisation's, and an organisation the default.
    """

    rpm = limit("requests a minute", "Requests admitted per minute.")
    itpm = limit("input tokens a minute", "Tokens of prompts per minute.")
    otpm = limit("output tokens a minute", "Tokens of answers per minute.")
    max_streams = limit("streams at once", "Messages that wait or run at the same time, streamed or not.")
    budget_tokens_day = limit("tokens a day", "Input and output tokens per day (UTC).")
    budget_tokens_month = limit("tokens a month", "Input and output tokens per calendar month (UTC).")
    budget_tokens = limit("tokens in all", "Input and output tokens, ever.")
    shadow = models.BooleanField("shadow", default=False, help_text="These limits count without refusing anything.")
    priority = models.CharField(max_length=20, blank=True, default="", choices=[(p, p) for p in PRIORITIES])
    policy = models.CharField(
        "safety policy", max_length=POLICY_NAME_LIMIT, blank=True, default="", validators=[known_policy]
    )

    class Meta:
        abstract = True


class Organization(Limits):
    """A customer: whose requests, limits and bills are counted together."""

    id = models.CharField(primary_key=True, max_length=40, default=new_organization_id, editable=False)
    name = models.CharField(max_length=NAME_LIMIT, validators=[one_line], unique=True)
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    suspended_at = models.DateTimeField(null=True, blank=True, editable=False)
    # What bounds all of its keys, whatever they say themselves.
    scopes = models.JSONField(default=all_scopes, validators=[known_scopes])
    allowed_models = models.JSONField(null=True, blank=True, validators=[model_names])  # null is all
    expires_at = models.DateTimeField(null=True, blank=True)
    members = models.ManyToManyField(settings.AUTH_USER_MODEL, through="Member")

    class Meta:
        ordering = ("name",)
        verbose_name = "organisation"

    def __str__(self) -> str:
        return self.name

    @property
    def usual_scopes(self) -> list[str]:
        """What a key has that is made without saying."""
        return [scope for scope in default_scopes() if scope in self.scopes] or list(self.scopes)

    @property
    def state(self) -> State:
        """What becomes of a request with one of its keys now."""
        if self.expires_at is not None and self.expires_at <= timezone.now():
            return "expired"
        return "active" if self.suspended_at is None else "suspended"


class Member(models.Model):
    """A person who works with an organisation's keys in the admin."""

    class Role(models.TextChoices):
        """What a member may do, within what operators gave the organisation. They also say who is one."""

        ADMIN = "admin", "admin: makes, changes and ends keys"
        VIEWER = "viewer", "viewer: looks on"

    organization = models.ForeignKey(
        Organization, on_delete=models.CASCADE, related_name="memberships", verbose_name="organisation"
    )
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=20, choices=Role.choices, default=Role.VIEWER)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["organization", "user"], name="one_role_each")]

    def __str__(self) -> str:
        return f"{self.user} ({self.role})"


class ApiKey(Limits):
    """A key: only its prefix and a keyed digest are kept, the key itself is shown once.

    While a rotation overlaps, it has two of each: what it counts, and who owns what it made, stays the same.
    """

    plain = ""  # what the admin shows right after the key was made

    id = models.CharField(primary_key=True, max_length=40, default=new_key_id, editable=False)
    # Records are found by their organisation's id: one that has keys, and so may have records, is not deleted.
    organization = models.ForeignKey(
        Organization, on_delete=models.PROTECT, related_name="keys", verbose_name="organisation"
    )
    name = models.CharField(max_length=NAME_LIMIT, validators=[one_line])
    prefix = models.CharField(max_length=24, unique=True, editable=False)
    digest = models.CharField(max_length=64, editable=False)
    old_prefix = models.CharField(max_length=24, unique=True, null=True, editable=False)
    old_digest = models.CharField(max_length=64, blank=True, default="", editable=False)
    old_until = models.DateTimeField(null=True, editable=False)
    scopes = models.JSONField(default=default_scopes, validators=[known_scopes])
    allowed_models = models.JSONField(null=True, blank=True, validators=[model_names])  # null is all
    expires_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    last_used_at = models.DateTimeField(null=True, editable=False)
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("organization", "name")
        verbose_name = "API key"
        indexes = [models.Index(fields=["organization", "-created_at", "-id"], name="key_by_organization")]

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"

    def namesakes(self) -> models.QuerySet[ApiKey]:
        """Return the organisation's other active keys of this name."""
        same = ApiKey.objects.filter(organization=self.organization_id, name=self.name, revoked_at=None)
        return same.exclude(pk=self.pk)

    def clean(self) -> None:
        """Refuse what the organisation's own bounds would make nothing of."""
        bounds = Organization.objects.filter(pk=self.organization_id).first()
        if bounds is None:
            return  # told of by the field itself
        if beyond := [scope for scope in self.scopes or () if scope not in bounds.scopes]:
            raise ValidationError({"scopes": f"the organisation does not have {', '.join(map(str, beyond))}."})
        allowed = bounds.allowed_models
        if allowed is not None and (beyond := [name for name in self.allowed_models or () if name not in allowed]):
            raise ValidationError({"allowed_models": f"the organisation may not use {', '.join(map(str, beyond))}."})

    @property
    def active(self) -> bool:
        return self.revoked_at is None

    @property
    def state(self) -> State:
        """What becomes of a request with this key now."""
        if self.revoked_at is not None:
            return "revoked"
        if self.expires_at is not None and self.expires_at <= timezone.now():
            return "expired"
        return self.organization.state

    @property
    def overlap(self) -> datetime | None:
        """Until when the secret before the last rotation works; None when it no longer does."""
        return self.old_until if self.old_until is not None and self.old_until > timezone.now() else None
