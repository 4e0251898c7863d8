"""Who calls: what a request needs to know of its key and its organisation, in one piece that can be cached.

No database here: `accounts.finding` asks it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from accounts.terms import DEFAULT_POLICY, DEFAULT_PRIORITY, Scope
from common.errors import AuthenticationFailed, PermissionDenied
from inference.protocol.outcomes import Priority

if TYPE_CHECKING:
    from accounts.models import Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """The limits of one level, as `accounts.models.Limits` has them: None is unlimited.

    Rates are per minute, budgets in tokens (input and output). In `shadow` they count without refusing.
    """

    rpm: int | None = None
    itpm: int | None = None
    otpm: int | None = None
    max_streams: int | None = None
    budget_tokens_day: int | None = None
    budget_tokens_month: int | None = None
    budget_tokens: int | None = None
    shadow: bool = False

    @classmethod
    def of(cls, level: Limits) -> Quota:
        """Return the limits of a key or an organisation."""
        return cls(**{field.name: getattr(level, field.name) for field in fields(cls)})


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls: ids of the key and its organisation, and what they may do and use."""

    key: str
    organization: str
    scopes: frozenset[str]
    allowed_models: frozenset[str] | None = None  # None: all
    priority: Priority = DEFAULT_PRIORITY
    policy: str = DEFAULT_POLICY
    key_quota: Quota = Quota()
    organization_quota: Quota = Quota()
    expires_at: float | None = None  # seconds since the epoch
    revoked: bool = False
    suspended: bool = False

    def check(self, *, needs: Scope) -> None:
        """Raise `AuthenticationFailed` for a key that is over, `PermissionDenied` for what it may not do."""
        self.check_standing()
        if needs not in self.scopes:
            raise PermissionDenied(f"This key lacks the scope {needs}.")

    def check_standing(self) -> None:
        """Raise for a key that is over, or whose organisation is suspended, whatever it is used for."""
        if self.revoked:
            raise AuthenticationFailed("This API key was revoked.")
        if self.expires_at is not None and self.expires_at <= time.time():
            since = datetime.fromtimestamp(self.expires_at, UTC)
            raise AuthenticationFailed(f"This API key expired at {since:%Y-%m-%dT%H:%M:%SZ}.")
        if self.suspended:
            raise PermissionDenied("The organisation of this API key is suspended.", code="organization_suspended")

    def may_use(self, model: str) -> bool:
        """Say whether a model is open to this caller."""
        return self.allowed_models is None or model in self.allowed_models

    def check_model(self, model: str) -> None:
        """Raise `PermissionDenied` for a model that is not open to this caller."""
        if not self.may_use(model):
            raise PermissionDenied(f"model: this key may not use {model}.", code="model_not_allowed")
