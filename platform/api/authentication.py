"""API keys for DRF's views."""

from __future__ import annotations

from typing import cast

from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request

from accounts.keys import Caller, find_caller, plain_key
from common.errors import AuthenticationFailed


class CallerUser:
    """A caller in the shape DRF's permissions ask of a user."""

    is_authenticated = True

    def __init__(self, caller: Caller) -> None:
        self.caller = caller


def caller_of(request: Request) -> Caller:
    """Return who calls, as `KeyAuthentication` found out."""
    return cast(CallerUser, request.user).caller


class KeyAuthentication(BaseAuthentication):
    """Take the key from `x-api-key` or `Authorization: Bearer`."""

    def authenticate(self, request: Request) -> tuple[CallerUser, None]:
        headers = request.headers
        caller = find_caller(plain_key(headers.get("x-api-key", ""), headers.get("authorization", "")))
        if caller is None:
            raise AuthenticationFailed("Invalid API key. Send one as x-api-key or Authorization: Bearer.")
        return CallerUser(caller), None

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"  # without one DRF makes its own 401s 403s
