"""The cache in front of the keys."""

from __future__ import annotations

from typing import Any

import pytest

from accounts.keys import Caller
from common.errors import AuthenticationFailed, PermissionDenied
from streaming import auth
from streaming.auth import Authenticator, key_of

PLAIN = "sk-sluice-abcdefgh-" + "x" * 43


def scope_of(*headers: tuple[bytes, bytes]) -> dict[str, Any]:
    return {"headers": list(headers)}


class Keys:
    """The database, as far as a test needs one."""

    def __init__(self) -> None:
        self.asked = 0
        self.known = {PLAIN: Caller("key_1", "org_1", frozenset({"inference"}))}

    def find_caller(self, plain: str) -> Caller | None:
        self.asked += 1
        return self.known.get(plain)


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> Keys:
    keys = Keys()
    monkeypatch.setattr(auth, "find_caller", keys.find_caller)
    return keys


GOOD = scope_of((b"x-api-key", PLAIN.encode()))


async def test_it_works_and_a_warm_key_costs_no_query(keys: Keys) -> None:
    authenticator = Authenticator()
    for _ in range(3):
        assert (await authenticator.authenticate(GOOD, needs="inference")).key == "key_1"
    assert keys.asked == 1


async def test_no_plain_key_stays_in_memory(keys: Keys) -> None:
    authenticator = Authenticator()
    await authenticator.authenticate(GOOD, needs="inference")
    assert PLAIN not in str(authenticator._known)


async def test_a_revoked_key_stops_working(keys: Keys, monkeypatch: pytest.MonkeyPatch) -> None:
    authenticator = Authenticator()
    await authenticator.authenticate(GOOD, needs="inference")
    keys.known.clear()
    monkeypatch.setattr(auth, "FRESH_S", 0.0)
    with pytest.raises(AuthenticationFailed):
        await authenticator.authenticate(GOOD, needs="inference")


async def test_it_refuses_a_missing_scope(keys: Keys) -> None:
    with pytest.raises(PermissionDenied, match="admin"):
        await Authenticator().authenticate(GOOD, needs="admin")


@pytest.mark.parametrize("plain", ["", "nonsense", "sk-sluice-wrong"])
async def test_what_is_no_key_does_not_reach_the_database(keys: Keys, plain: str) -> None:
    with pytest.raises(AuthenticationFailed):
        await Authenticator().authenticate(scope_of((b"x-api-key", plain.encode())), needs="inference")
    assert keys.asked == 0


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ((b"x-api-key", b"a"), "a"),
        ((b"authorization", b"Bearer a"), "a"),
        ((b"authorization", b"bearer  a "), "a"),
        ((b"authorization", b"Basic a"), ""),
        ((b"other", b"a"), ""),
    ],
)
def test_keys_come_in_two_headers(header: tuple[bytes, bytes], expected: str) -> None:
    assert key_of(scope_of(header)) == expected
