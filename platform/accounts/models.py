"""Tenants: organisations and the keys they call with."""

from __future__ import annotations

from django.db import models
from django.utils import timezone

from common.ids import new_id


def new_organization_id() -> str:
    return new_id("org")


def new_key_id() -> str:
    return new_id("key")


def default_scopes() -> list[str]:
    return ["inference", "usage"]


class Organization(models.Model):
    """A customer: whose requests, limits and bills are counted together."""

    id = models.CharField(primary_key=True, max_length=40, default=new_organization_id, editable=False)
    name = models.CharField(max_length=100, unique=True)
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name


class ApiKey(models.Model):
    """A key: only its prefix and a keyed digest are kept, the key itself is shown once."""

    id = models.CharField(primary_key=True, max_length=40, default=new_key_id, editable=False)
    organization = models.ForeignKey(Organization, on_delete=models.CASCADE, related_name="keys")
    name = models.CharField(max_length=100)
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

    @property
    def active(self) -> bool:
        return self.revoked_at is None
