"""Making and finding API keys: `sk-sluice-` + 8 visible characters + `-` + 43 secret ones."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import string
from dataclasses import dataclass

from django.conf import settings
from django.core.exceptions import ValidationError

from accounts.models import NAME_LIMIT, ApiKey, Organization, default_scopes, one_line

START = "sk-sluice-"
_VISIBLE = 8
_SECRET = 43  # of 62 letters: 256 bits
_LETTERS = string.ascii_letters + string.digits


class InvalidName(ValueError):
    """Raised when a name will not do; the message says what would."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls, as far as a request needs to know."""

    key: str
    organization: str
    scopes: frozenset[str]


def _random(length: int) -> str:
    return "".join(secrets.choice(_LETTERS) for _ in range(length))


def digest(plain: str) -> str:
    """Return the keyed digest of a key (HMAC-SHA-256 under the site's secret), in hex."""
    return hmac.new(settings.SECRET_KEY.encode(), plain.encode(), hashlib.sha256).hexdigest()


def prefix_of(plain: str) -> str | None:
    """Return the visible part of what looks like a key, None for anything else."""
    prefix, _, secret = plain.removeprefix(START).partition("-")
    well_formed = plain.startswith(START) and len(prefix) == _VISIBLE and len(secret) == _SECRET
    return START + prefix if well_formed else None


def plain_key(api_key_header: str, authorization_header: str) -> str:
    """Return the key that a request's `x-api-key` or `Authorization: Bearer` carries, or ""."""
    scheme, _, token = authorization_header.strip().partition(" ")
    return api_key_header.strip() or (token.strip() if scheme.lower() == "bearer" else "")


def create_key(*, name: str, organization: str = "default", scopes: list[str] | None = None) -> tuple[ApiKey, str]:
    """Make a key in an organisation (made too, when new); return it and the plain key, which is kept nowhere."""
    name, organization = _checked("key", name), _checked("organisation", organization)
    owner, _ = Organization.objects.get_or_create(name=organization)
    prefix = START + _random(_VISIBLE)
    plain = f"{prefix}-{_random(_SECRET)}"
    key = ApiKey.objects.create(
        organization=owner, name=name, prefix=prefix, digest=digest(plain), scopes=scopes or default_scopes()
    )
    return key, plain


def _checked(what: str, name: str) -> str:
    name = name.strip()
    if not 0 < len(name) <= NAME_LIMIT:
        raise InvalidName(f"The name of the {what} needs 1 to {NAME_LIMIT} characters; this has {len(name)}.")
    try:
        one_line(name)
    except ValidationError as error:
        raise InvalidName(error.message) from None
    return name


def find_key(plain: str) -> ApiKey | None:
    """Return the active key that `plain` is, or None."""
    prefix = prefix_of(plain)
    key = ApiKey.objects.filter(prefix=prefix, revoked_at=None).first() if prefix else None
    return key if key and hmac.compare_digest(key.digest, digest(plain)) else None


def find_caller(plain: str) -> Caller | None:
    """Return who calls with `plain`, or None."""
    return _caller(find_key(plain))


def find_caller_by_id(key_id: str) -> Caller | None:
    """Return the caller behind an active key's id, or None."""
    return _caller(ApiKey.objects.filter(pk=key_id, revoked_at=None).first())


def _caller(key: ApiKey | None) -> Caller | None:
    return Caller(key.id, key.organization_id, frozenset(key.scopes)) if key else None
