"""Finding out in the database who calls."""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from datetime import datetime
from typing import cast

from django.db.models import Q, QuerySet

from accounts.callers import Caller, Quota
from accounts.models import ApiKey
from accounts.plain import digest, prefix_of
from accounts.terms import DEFAULT_POLICY, DEFAULT_PRIORITY
from inference.protocol.outcomes import Priority


def find_caller(plain: str) -> Caller | None:
    """Return who calls with `plain`, also where that key is over; None for what is no key."""
    prefix = prefix_of(plain)
    if prefix is None:
        return None
    given = digest(plain)
    for key in _keys().filter(Q(prefix=prefix) | Q(old_prefix=prefix)):
        if hmac.compare_digest(key.digest, given):
            return caller_of(key)
        if hmac.compare_digest(key.old_digest, given):
            return caller_of(key, key.old_until)
    return None


def find_caller_by_id(key_id: str) -> Caller | None:
    """Return the caller behind a key's id, also where that key is over; None for what is no id."""
    key = _keys().filter(pk=key_id).first()
    return caller_of(key) if key else None


def caller_of(key: ApiKey, until: datetime | None = None) -> Caller:
    """Return who calls with a key, by the secret that is good `until` then."""
    organization = key.organization
    return Caller(
        key.id,
        organization.id,
        frozenset(key.scopes) & frozenset(organization.scopes),
        _common(key.allowed_models, organization.allowed_models),
        cast(Priority, key.priority or organization.priority or DEFAULT_PRIORITY),
        key.policy or organization.policy or DEFAULT_POLICY,
        Quota.of(key),
        Quota.of(organization),
        _earliest(key.expires_at, organization.expires_at, until),
        revoked=key.revoked_at is not None,
        suspended=organization.suspended_at is not None,
    )


def _keys() -> QuerySet[ApiKey]:
    return ApiKey.objects.select_related("organization").order_by()


def _common(ours: Iterable[str] | None, theirs: Iterable[str] | None) -> frozenset[str] | None:
    """Return what both lists have, where None has everything."""
    if ours is None or theirs is None:
        both = ours if theirs is None else theirs
        return None if both is None else frozenset(both)
    return frozenset(ours) & frozenset(theirs)


def _earliest(*moments: datetime | None) -> float | None:
    return min((moment.timestamp() for moment in moments if moment is not None), default=None)
