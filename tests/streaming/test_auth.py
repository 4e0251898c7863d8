"""Finding out who calls: from memory, from the database, and without it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from django.db import InterfaceError, OperationalError

from accounts import plain
from accounts.cache import Callers
from accounts.callers import Caller
from common.errors import AuthenticationFailed, PermissionDenied, Unavailable
from streaming import auth
from streaming.auth import Authenticator, key_of

PREFIX, PLAIN = plain.mint()
CALLER = Caller("key_1", "org_1", frozenset({"inference"}))


def scope_of(*headers: tuple[bytes, bytes]) -> dict[str, Any]:
    return {"headers": list(headers)}


GOOD = scope_of((b"x-api-key", PLAIN.encode()))


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Keys:
    """The database, as far as a test needs one."""

    def __init__(self) -> None:
        self.asked = 0
        self.known = {PLAIN: CALLER, "key_1": CALLER}
        self.error: Exception | None = None
        self.gate: threading.Event | None = None

    def find(self, name: str) -> Caller | None:
        self.asked += 1
        if self.gate:
            self.gate.wait(10)
        if self.error:
            raise self.error
        return self.known.get(name)


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> Keys:
    keys = Keys()
    monkeypatch.setattr(auth, "find_caller", keys.find)
    monkeypatch.setattr(auth, "find_caller_by_id", keys.find)
    return keys


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def callers(clock: Clock) -> Callers:
    return Callers(clock)


@pytest.fixture
def authenticator(keys: Keys, callers: Callers) -> Authenticator:
    return Authenticator(callers=callers)


async def settled(authenticator: Authenticator) -> None:
    """Wait for what is asked in the background."""
    while authenticator._asking:
        await asyncio.wait(authenticator._asking.values())
        await asyncio.sleep(0)


async def test_it_works_and_a_warm_key_costs_no_query(authenticator: Authenticator, keys: Keys) -> None:
    for _ in range(3):
        assert (await authenticator.authenticate(GOOD, needs="inference")).key == "key_1"
    assert keys.asked == 1


async def test_it_costs_none_for_as_long_as_changes_are_heard_of(
    authenticator: Authenticator, keys: Keys, callers: Callers, clock: Clock
) -> None:
    await authenticator.authenticate(GOOD, needs="inference")
    for _ in range(100):
        clock.now += 0.5
        callers.heard()
        await authenticator.authenticate(GOOD, needs="inference")
    assert keys.asked == 1
    clock.now += 30
    callers.heard()
    await authenticator.authenticate(GOOD, needs="inference")
    await settled(authenticator)
    assert keys.asked == 2, "in the background, now and then"


async def test_many_who_wait_ask_once(authenticator: Authenticator, keys: Keys) -> None:
    found = await asyncio.gather(*(authenticator.authenticate(GOOD, needs="inference") for _ in range(50)))
    assert {caller.key for caller in found} == {"key_1"}
    assert keys.asked == 1


async def test_no_plain_key_stays_in_memory(authenticator: Authenticator, callers: Callers) -> None:
    await authenticator.authenticate(GOOD, needs="inference")
    assert PLAIN not in str(vars(callers))


async def test_a_revoked_key_stops_working(authenticator: Authenticator, keys: Keys, clock: Clock) -> None:
    await authenticator.authenticate(GOOD, needs="inference")
    keys.known[PLAIN] = replace(CALLER, revoked=True)
    clock.now += 1
    with pytest.raises(AuthenticationFailed, match="revoked"):
        await authenticator.authenticate(GOOD, needs="inference")


async def test_an_expired_key_stops_working_by_itself(
    authenticator: Authenticator, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys.known[PLAIN] = replace(CALLER, expires_at=2000.0)
    monkeypatch.setattr("accounts.callers.time.time", lambda: 1999.0)
    await authenticator.authenticate(GOOD, needs="inference")
    monkeypatch.setattr("accounts.callers.time.time", lambda: 2000.0)
    with pytest.raises(AuthenticationFailed, match="expired"):
        await authenticator.authenticate(GOOD, needs="inference")
    assert keys.asked == 1


async def test_a_key_is_found_by_its_id(authenticator: Authenticator, keys: Keys) -> None:
    assert await authenticator.by_id("key_1", needs="inference") == CALLER
    with pytest.raises(AuthenticationFailed):
        await authenticator.by_id("key_2", needs="inference")


async def test_it_refuses_a_missing_scope(authenticator: Authenticator) -> None:
    with pytest.raises(PermissionDenied, match="admin"):
        await authenticator.authenticate(GOOD, needs="admin")


@pytest.mark.parametrize(
    "plain",
    [
        *("", "nonsense", "sk-sluice-wrong"),
        pytest.param(PLAIN[:-1] + "_", id="mistyped"),
        pytest.param(f"{PREFIX}-{'x' * 43}", id="forged"),
    ],
)
async def test_what_is_no_key_does_not_reach_the_database(authenticator: Authenticator, keys: Keys, plain: str) -> None:
    with pytest.raises(AuthenticationFailed):
        await authenticator.authenticate(scope_of((b"x-api-key", plain.encode())), needs="inference")
    assert keys.asked == 0


async def test_a_key_that_is_gone_reaches_it_once_in_a_while(
    authenticator: Authenticator, keys: Keys, clock: Clock
) -> None:
    keys.known.clear()
    for _ in range(20):
        with pytest.raises(AuthenticationFailed, match="Invalid API key"):
            await authenticator.authenticate(GOOD, needs="inference")
    assert keys.asked == 1
    clock.now += 60
    with pytest.raises(AuthenticationFailed):
        await authenticator.authenticate(GOOD, needs="inference")
    assert keys.asked == 2


class TestWithoutDatabase:
    """Whoever worked before goes on."""

    @pytest.mark.parametrize("error", [OperationalError, InterfaceError, OSError])
    async def test_a_key_that_was_good_goes_on(
        self, authenticator: Authenticator, keys: Keys, clock: Clock, error: Callable[[str], Exception]
    ) -> None:
        await authenticator.authenticate(GOOD, needs="inference")
        keys.error = error("away")
        clock.now += 60
        assert await authenticator.authenticate(GOOD, needs="inference") == CALLER
        await settled(authenticator)

    async def test_nobody_waits_for_it_while_changes_are_heard_of(
        self, authenticator: Authenticator, keys: Keys, callers: Callers, clock: Clock
    ) -> None:
        await authenticator.authenticate(GOOD, needs="inference")
        keys.error = OperationalError("away")
        clock.now += 3600
        callers.heard()
        assert await authenticator.authenticate(GOOD, needs="inference") == CALLER
        await settled(authenticator)
        assert await authenticator.authenticate(GOOD, needs="inference") == CALLER

    async def test_nor_for_long_when_it_does_not_answer(
        self, authenticator: Authenticator, keys: Keys, clock: Clock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(auth, "PATIENCE_S", 0.01)
        await authenticator.authenticate(GOOD, needs="inference")
        keys.gate = threading.Event()
        clock.now += 60
        assert await authenticator.authenticate(GOOD, needs="inference") == CALLER
        keys.gate.set()
        await settled(authenticator)

    async def test_one_that_nobody_knows_has_to_wait(self, authenticator: Authenticator, keys: Keys) -> None:
        keys.error = OperationalError("away")
        with pytest.raises(Unavailable) as refusal:
            await authenticator.authenticate(GOOD, needs="inference")
        assert refusal.value.headers["retry-after"]

    async def test_after_a_while_nothing_is_certain_any_more(
        self, authenticator: Authenticator, keys: Keys, clock: Clock
    ) -> None:
        await authenticator.authenticate(GOOD, needs="inference")
        keys.error = OperationalError("away")
        clock.now += 3600
        with pytest.raises(Unavailable):
            await authenticator.authenticate(GOOD, needs="inference")

    async def test_the_log_has_no_key(
        self, authenticator: Authenticator, keys: Keys, caplog: pytest.LogCaptureFixture
    ) -> None:
        keys.error = OperationalError("away")
        with pytest.raises(Unavailable):
            await authenticator.authenticate(GOOD, needs="inference")
        assert "database is away" in caplog.text
        assert PLAIN not in caplog.text


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
