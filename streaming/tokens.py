"""The token in a `stream_url`: for one stream, from one API key, until the log is gone."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time

from django.conf import settings

from common.errors import AuthenticationFailed

_PURPOSE = b"sluice stream token"


def sign(message_id: str, key: str, expires_at: int) -> str:
    """Return a token that lets its bearer read one stream, until `expires_at` (seconds since the epoch)."""
    return f"{expires_at}.{key}.{_signature(message_id, key, expires_at)}"


def verify(token: str, message_id: str) -> str:
    """Return the id of the API key that a token came from; raise `AuthenticationFailed` for any other token."""
    expires_at, _, rest = token.partition(".")
    key, _, signature = rest.rpartition(".")
    genuine = (
        expires_at.isascii()
        and expires_at.isdecimal()
        and len(expires_at) < 16
        and hmac.compare_digest(signature.encode(), _signature(message_id, key, int(expires_at)).encode())
    )
    if not genuine:
        raise AuthenticationFailed("Invalid stream token.")
    if int(expires_at) < time.time():
        raise AuthenticationFailed("The stream token has expired.")
    return key


def _signature(message_id: str, key: str, expires_at: int) -> str:
    secret = hmac.digest(settings.SECRET_KEY.encode(), _PURPOSE, hashlib.sha256)
    made = hmac.digest(secret, f"{message_id}\n{key}\n{expires_at}".encode(), hashlib.sha256)
    return base64.urlsafe_b64encode(made).rstrip(b"=").decode()
