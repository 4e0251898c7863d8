"""Rows as settlements and reports leave them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.utils import timezone

from records.models import SafetyTrigger
from tests.conftest import Tenant


def find(tenant: Tenant, position: int = 0, *, found_at: datetime | None = None, **facts: Any) -> SafetyTrigger:
    """Let a check have found something in a tenant's message."""
    found_at = found_at or timezone.now()
    usual = {
        "record_id": "msg_1", "organization": tenant.key.organization, "key": tenant.key, "model": "m",
        "policy": "strict", "check_name": "patterns", "category": "secrets.jwt", "action": "enforce",
        "side": "output", "score": 1.0, "span": "0a1b",
    }  # fmt: skip
    return SafetyTrigger.objects.create(
        id=f"msg_1:patterns:output:{position}", position=position, found_at=found_at,
        hour=int(found_at.timestamp()) // 3600, **usual | facts,
    )  # fmt: skip
