"""The text of an API key: `sk-sluice-` + 8 visible characters + `-` + 43 secret ones, the last 8 of them a seal.

The seal is made of the rest under the site's secret, so that what we never issued is told apart without a database.
"""

from __future__ import annotations

import hmac
import secrets
import string

from django.conf import settings

START = "sk-sluice-"
_VISIBLE = 8
_SECRET = 35  # of 62 letters: 208 bits
_SEAL = 8  # 47 bits: enough against floods, the digest does the rest
_LETTERS = string.ascii_letters + string.digits


def _random(length: int) -> str:
    return "".join(secrets.choice(_LETTERS) for _ in range(length))


def mint() -> tuple[str, str]:
    """Return the visible prefix of a new key, and the key."""
    prefix = START + _random(_VISIBLE)
    unsealed = f"{prefix}-{_random(_SECRET)}"
    return prefix, unsealed + _seal(unsealed)


def digest(plain: str) -> str:
    """Return the keyed digest of a key (HMAC-SHA-256 under the site's secret), in hex."""
    return hmac.digest(settings.SECRET_KEY.encode(), plain.encode(), "sha256").hex()


def prefix_of(plain: str) -> str | None:
    """Return the visible part of a key that was issued here, None for anything else."""
    prefix, _, secret = plain.removeprefix(START).partition("-")
    well_formed = plain.startswith(START) and len(prefix) == _VISIBLE and len(secret) == _SECRET + _SEAL
    if not (well_formed and plain.isascii()):
        return None
    genuine = hmac.compare_digest(plain[-_SEAL:], _seal(plain[:-_SEAL]))
    return START + prefix if genuine else None


def plain_key(api_key_header: str, authorization_header: str) -> str:
    """Return the key that a request's `x-api-key` or `Authorization: Bearer` carries, or ""."""
    scheme, _, token = authorization_header.strip().partition(" ")
    return api_key_header.strip() or (token.strip() if scheme.lower() == "bearer" else "")


def _seal(unsealed: str) -> str:
    number = int.from_bytes(hmac.digest(settings.SECRET_KEY.encode(), b"seal\n" + unsealed.encode(), "sha256"))
    letters = ""
    for _ in range(_SEAL):
        number, letter = divmod(number, len(_LETTERS))
        letters += _LETTERS[letter]
    return letters
