"""What a customer can give its own keys: never more than operators gave its organisation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from accounts.models import Organization
from accounts.terms import DEFAULT_POLICY, DEFAULT_PRIORITY, LIMITS, PRIORITIES
from safety.models import policies_from


def excesses(organization: Organization, given: Mapping[str, Any], *, until: datetime | None = None) -> dict[str, str]:
    """Return which of the given fields of a key are too much, each with what was expected.

    `until` is when the key that gives them expires: it makes none that lives longer.
    """
    return dict(_excesses(organization, given, until))


def _excesses(
    organization: Organization, given: Mapping[str, Any], until: datetime | None
) -> Iterator[tuple[str, str]]:
    for field in LIMITS:
        most, value = getattr(organization, field), given.get(field)
        if most is not None and value is not None and value > most:
            yield field, f"expected at most {most}, the organisation's own."
    yield from _beyond("scopes", given, organization.scopes)
    yield from _beyond("allowed_models", given, organization.allowed_models)
    priority, policy = organization.priority or DEFAULT_PRIORITY, organization.policy or DEFAULT_POLICY
    yield from _outside("priority", given, PRIORITIES[: PRIORITIES.index(priority) + 1], priority)
    if given.get("policy"):
        yield from _outside("policy", given, policies_from(policy), policy)
    if "expires_at" in given:
        yield from _too_late(given["expires_at"], organization.expires_at, until)


def _beyond(field: str, given: Mapping[str, Any], allowed: list[str] | None) -> Iterator[tuple[str, str]]:
    if allowed is not None and (beyond := [name for name in given.get(field) or () if name not in allowed]):
        yield field, f"expected only {', '.join(allowed)}: the organisation does not have {', '.join(beyond)}."


def _outside(field: str, given: Mapping[str, Any], within: Sequence[str], own: str) -> Iterator[tuple[str, str]]:
    if given.get(field) and given[field] not in within:
        yield field, f"expected {' or '.join(within)}: the organisation has {own}."


def _too_late(given: datetime | None, end: datetime | None, until: datetime | None) -> Iterator[tuple[str, str]]:
    if given is not None and end is not None and given > end:
        yield "expires_at", f"expected {end:%Y-%m-%dT%H:%M:%SZ} at the latest, when the organisation ends."
    elif until is not None and (given is None or given > until):
        yield (
            "expires_at",
            f"expected {until:%Y-%m-%dT%H:%M:%SZ} at the latest, when the key that you call with expires.",
        )
