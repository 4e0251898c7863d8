"""Making, rotating and revoking API keys, and finding one by its text. That text is `accounts.plain`'s."""

from __future__ import annotations

import hmac
from datetime import timedelta
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils import timezone

from accounts.changes import announce
from accounts.models import ApiKey, Organization, one_line
from accounts.plain import digest, mint, prefix_of
from accounts.terms import NAME_LIMIT


class KeyIsOver(Exception):
    """Raised when a key that was to be changed is revoked, or was rotated by somebody else in the meantime."""


def create_key(*, name: str, organization: str = "default", **given: Any) -> tuple[ApiKey, str]:
    """Make a key in an organisation (made too, when new); return it and the plain key, which is kept nowhere.

    `given` are other fields of `ApiKey`. Raises `ValidationError` by field for what will not do; then nothing is made.
    """
    name, organization = _checked("name", "key", name), _checked("org", "organisation", organization)
    with transaction.atomic():
        owner, _ = Organization.objects.get_or_create(name=organization)
        key = ApiKey(organization=owner, name=name, **{"scopes": owner.usual_scopes} | given)
        return key, issue(key)


def issue(key: ApiKey) -> str:
    """Save a new key with a secret of its own, and return that; raise `ValidationError` by field."""
    key.prefix, plain = mint()
    key.digest = digest(plain)
    key.full_clean()
    key.save(force_insert=True)
    return plain


def rotate(key: ApiKey, *, overlap: timedelta) -> str:
    """Give a key a new secret and return that. The one it had works for `overlap` more, any older one ends now.

    Raises `KeyIsOver`.
    """
    prefix, plain = mint()
    until = timezone.now() + overlap if overlap else None
    _update(
        key,
        prefix=prefix,
        digest=digest(plain),
        old_prefix=key.prefix if until else None,
        old_digest=key.digest if until else "",
        old_until=until,
    )
    return plain


def end_overlap(key: ApiKey) -> None:
    """End the secret that a rotation left; the new one goes on. Raises `KeyIsOver`."""
    _update(key, old_prefix=None, old_digest="", old_until=None)


def revoke(key: ApiKey) -> None:
    """End a key for good. Raises `KeyIsOver`."""
    _update(key, revoked_at=timezone.now())


def suspend(organization: Organization) -> None:
    """Refuse all keys of an organisation, until it is resumed."""
    organization.suspended_at = timezone.now()
    organization.save(update_fields=["suspended_at"])


def resume(organization: Organization) -> None:
    """Let a suspended organisation's keys work again."""
    organization.suspended_at = None
    organization.save(update_fields=["suspended_at"])


def find_key(plain: str) -> ApiKey | None:
    """Return the active key that `plain` is, or None."""
    prefix = prefix_of(plain)
    key = ApiKey.objects.filter(prefix=prefix, revoked_at=None).first() if prefix else None
    return key if key and hmac.compare_digest(key.digest, digest(plain)) else None


def _update(key: ApiKey, **values: Any) -> None:
    """Change a key that is still as we know it."""
    changed = ApiKey.objects.filter(pk=key.pk, prefix=key.prefix, revoked_at=None).update(**values)
    if not changed:
        raise KeyIsOver(f"{key} is revoked, or was rotated by somebody else in the meantime.")
    for name, value in values.items():
        setattr(key, name, value)
    announce(key.organization_id, key.pk)


def _checked(field: str, what: str, name: str) -> str:
    name = name.strip()
    if not 0 < len(name) <= NAME_LIMIT:
        complaint = f"The name of the {what} needs 1 to {NAME_LIMIT} characters; this has {len(name)}."
        raise ValidationError({field: complaint})
    try:
        one_line(name)
    except ValidationError as error:
        raise ValidationError({field: error.message}) from None
    return name
