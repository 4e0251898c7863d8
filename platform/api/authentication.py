"""API keys for DRF's views."""

from __future__ import annotations

from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request

from accounts.keys import Caller, find_caller
from common.errors import AuthenticationFailed


class CallerUser:
    """A caller in the shape DRF's permissions ask of a user."""

    is_authenticated = True

    def __init__(self, caller: Caller) -> None:
        self.caller = caller


class KeyAuthentication(BaseAuthentication):
    """Take the key from `x-api-key` or `Authorization: Bearer`."""

    def authenticate(self, request: Request) -> tuple[CallerUser, None]:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        plain = request.headers.get("x-api-key") or (token.strip() if scheme.lower() == "bearer" else "")
        caller = find_caller(plain)
        if caller is None:
            raise AuthenticationFailed("Invalid API key. Send one as x-api-key or Authorization: Bearer.")
        return CallerUser(caller), None
