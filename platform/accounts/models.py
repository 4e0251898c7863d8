"""Tenants: organisations and the keys they call with."""

from __future__ import annotations

from django.core.validators import RegexValidator
from django.db import models
from django.utils import timezone

from common.ids import new_id

NAME_LIMIT = 100  # characters
one_line = RegexValidator(r"\A[^\x00-\x1f\x7f-\x9f\u2028\u2029]*\Z", "A name has no line breaks or control characters.")


def new_organization_id() -> str:
    return new_id("org")


def new_key_id() -> str:
    return new_id("key")


def default_scopes() -> list[str]:
    return ["inference", "usage"]


class Organization(models.Model):
    """A customer: whose requests, limits and bills are counted together."""

    id = models.CharField(primary_key=True, max_length=40, default=new_organization_id, editable=False)
    name = models.CharField(max_length=NAME_LIMIT, validators=[one_line], unique=True)
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name


class ApiKey(models.Model):
    """A key: only its prefix and a keyed digest are kept, the key itself is shown once."""

    id = models.CharField(primary_key=True, max_length=40, default=new_key_id, editable=False)
    # Records are found by their organisation's id: one that has keys, and so may have records, is not deleted.
    organization = models.ForeignKey(Organization, on_delete=models.PROTECT, related_name="keys")
    name = models.CharField(max_length=NAME_LIMIT, validators=[one_line])
    prefix = models.CharField(max_length=24, unique=True, editable=False)
    digest = models.CharField(max_length=64, editable=False)
    scopes = models.JSONField(default=default_scopes)
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("organization", "name")
        verbose_name = "API key"

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"

    def namesakes(self) -> models.QuerySet[ApiKey]:
        """Return the organisation's other active keys of this name."""
        same = ApiKey.objects.filter(organization=self.organization_id, name=self.name, revoked_at=None)
        return same.exclude(pk=self.pk)

    @property
    def active(self) -> bool:
        return self.revoked_at is None
