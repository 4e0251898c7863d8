"""API keys for DRF's views."""

from __future__ import annotations

from typing import cast

from django.db import Error as DatabaseError
from redis.exceptions import RedisError
from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request

from accounts.cache import CALLERS
from accounts.callers import Caller
from accounts.finding import find_caller
from accounts.plain import digest, plain_key, prefix_of
from accounts.uses import USES, gather
from common.errors import AuthenticationFailed, Unavailable
from common.redis import connection


class CallerUser:
    """A caller in the shape DRF's permissions ask of a user."""

    is_authenticated = True

    def __init__(self, caller: Caller) -> None:
        self.caller = caller


def caller_of(request: Request) -> Caller:
    """Return who calls, as `KeyAuthentication` found out."""
    return cast(CallerUser, request.user).caller


class KeyAuthentication(BaseAuthentication):
    """Take the key from `x-api-key` or `Authorization: Bearer`. For its scopes see the permissions."""

    def authenticate(self, request: Request) -> tuple[CallerUser, None]:
        headers = request.headers
        plain = plain_key(headers.get("x-api-key", ""), headers.get("authorization", ""))
        if not plain:
            raise AuthenticationFailed("No API key. Send one as x-api-key or Authorization: Bearer.")
        caller = _find(plain)
        if caller is None:
            raise AuthenticationFailed("Invalid API key.")
        caller.check_standing()
        _note(caller)
        return CallerUser(caller), None

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"  # without one DRF makes its own 401s 403s


def _find(plain: str) -> Caller | None:
    """Return a caller from memory, which a gateway's endpoints share, or from the database."""
    name = digest(plain)
    known = CALLERS.look(name)
    if known is not None and CALLERS.is_fresh(known) and not CALLERS.is_due(known):
        return known.caller
    if prefix_of(plain) is None or CALLERS.is_unknown(name):
        return None
    since = CALLERS.moment()
    try:
        caller = find_caller(plain)
    except DatabaseError as error:
        if known is not None and CALLERS.is_usable(known):
            return known.caller
        raise Unavailable("Keys cannot be checked now.", headers={"retry-after": "5"}) from error
    CALLERS.learn(name, caller, since=since)
    return caller


def _note(caller: Caller) -> None:
    USES.note(caller.key)
    if USES.is_due():  # no gateway in this process tells of them
        try:
            gather(connection())
        except (RedisError, OSError):
            pass  # a use is no reason to refuse one
