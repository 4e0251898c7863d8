"""Telling which organisations and keys use a safety policy, so that it stays while they do."""

from __future__ import annotations

from typing import Any

from accounts.models import ApiKey, Organization
from safety.models import uses


def answer() -> None:
    """Answer whoever asks what uses a policy."""
    uses.connect(_users, dispatch_uid="accounts use policies")


def _users(name: str, **_: Any) -> list[str]:
    organizations = Organization.objects.filter(policy=name)
    keys = ApiKey.objects.filter(policy=name, revoked_at=None).select_related("organization")
    return [
        *(f"the organisation {organization}" for organization in organizations),
        *(f"the key {key.name} ({key.prefix}…) of {key.organization}" for key in keys),
    ]
