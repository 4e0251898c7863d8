"""Organisations and keys as the schema shows them."""

from __future__ import annotations

from typing import Any

_LIMITS: dict[str, Any] = {
    "rpm": 60,
    "itpm": None,
    "otpm": 20000,
    "max_streams": 4,
    "budget_tokens_day": None,
    "budget_tokens_month": 5000000,
    "budget_tokens": None,
    "shadow": False,
}
ORGANIZATION: dict[str, Any] = {
    "id": "org_0190f3a1b2c34d5e6f708192a3b4c5d6",
    "name": "acme",
    "scopes": ["inference", "usage", "admin"],
    "allowed_models": None,
    **_LIMITS,
    "priority": "standard",
    "policy": "standard",
    "created_at": "2026-01-01T12:00:00Z",
    "expires_at": None,
}
KEY: dict[str, Any] = {
    "id": "key_0190f3a1b2c34d5e6f708192a3b4c5d6",
    "name": "nightly reports",
    "prefix": "sk-sluice-Ab3dEf7h",
    "state": "active",
    "scopes": ["inference"],
    "allowed_models": None,
    **_LIMITS,
    "priority": "batch",
    "policy": None,
    "created_at": "2026-01-31T12:00:00Z",
    "expires_at": None,
    "last_used_at": None,
    "revoked_at": None,
    "old_prefix": None,
    "old_until": None,
}
NEW_KEY: dict[str, Any] = KEY | {"key": "sk-sluice-Ab3dEf7h-…"}
