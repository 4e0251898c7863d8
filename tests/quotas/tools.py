"""Books of quotas on a real Redis, with a clock of the test's own."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, cast

import redis

from accounts.callers import Caller, Quota
from inference.protocol import quotas
from inference.protocol.quotas import NOW, accounting, books, renewing
from inference.protocol.reports import Settlement
from quotas.admission import admit, give_back
from quotas.headers import anthropic_headers
from quotas.standings import Need, Standing

CLOCK = "{test}:now"
START = 1_764_547_200.0 - 600  # ten minutes before the first of December 2025
LEASE_MS = 90_000

_TOLD_TIME = f"local now = tonumber(redis.call('GET', '{CLOCK}'))\n"


def with_clock(script: str) -> str:
    """Return a script whose time is what the test says."""
    assert NOW in script or script.count("TIME") == 0
    return script.replace(NOW, _TOLD_TIME)


def a_caller(key: Quota = Quota(), organization: Quota = Quota(), name: str = "key_1") -> Caller:  # noqa: B008
    return Caller(name, "org_1", frozenset({"inference"}), key_quota=key, organization_quota=organization)


def a_settlement(message_id: str, *, input_tokens: int, output_tokens: int, **changes: Any) -> Settlement:
    facts: dict[str, Any] = {
        "id": message_id, "organization": "org_1", "key": "key_1", "model": "m", "created_at": START,
        "input_tokens": input_tokens, "output_tokens": output_tokens, "outcome": "end_turn", "attempts": 1,
        "worker": "w", "finished_at": START + 1, "queue_ms": 0.0, "generation_ms": 0.0,
    }  # fmt: skip
    return Settlement(**facts | changes)


class Books:
    """The books of `org_1`; `now` is seconds since the epoch."""

    def __init__(self, store: redis.Redis) -> None:
        self._store = store
        self.noted: list[Standing] = []
        self.shown: list[Standing] = []
        self.now = START

    @property
    def now(self) -> float:
        return self._now

    @now.setter
    def now(self, seconds: float) -> None:
        self._now = seconds
        self._store.set(CLOCK, round(seconds * 1000))

    async def run(self, script: str, names: Sequence[str], arguments: Sequence[Any]) -> Any:
        return self.do(script, names, arguments)

    def do(self, script: str, names: Sequence[str], arguments: Sequence[Any]) -> Any:
        return self._store.eval(with_clock(script), len(names), *names, *arguments)

    async def admit(
        self, caller: Caller, message_id: str = "msg_1", *, input_tokens: int = 10, max_tokens: int = 20
    ) -> dict[str, str]:
        """Admit as a gateway does, or raise; `shown` is what the headers are made of."""

        def form(standings: Sequence[Standing], need: Need, now: datetime) -> dict[str, str]:
            self.shown = list(standings)
            return anthropic_headers(standings, need, now)

        return await admit(
            self.run,
            caller,
            message_id=message_id,
            input_tokens=input_tokens,
            max_tokens=max_tokens,
            created_at=self.now,
            lease_ms=LEASE_MS,
            form=form,
            note=self.noted.append,
        )

    async def give_back(self, message_id: str = "msg_1") -> None:
        await give_back(self.run, "org_1", message_id)

    def account(
        self, message_id: str = "msg_1", *, input_tokens: int = 10, output_tokens: int = 5, pen: int = 1, **more: Any
    ) -> int:
        settlement = a_settlement(message_id, input_tokens=input_tokens, output_tokens=output_tokens, **more)
        return int(self.do(*accounting(settlement, pen=pen)))

    def renew(self, *message_ids: str) -> None:
        self.do(*renewing("org_1", message_ids, LEASE_MS))

    def spent(self, subject: str = "key_1") -> dict[str, int]:
        """What was used up, by period."""
        return {
            field.partition("|")[2]: int(value)
            for field, value in self._hash(quotas.spent("org_1")).items()
            if field.startswith(f"{subject}|") and " " not in value
        }

    def reserved(self, subject: str = "key_1") -> dict[str, int]:
        return {
            field.partition("|")[2]: int(value)
            for field, value in self._hash(quotas.reserved("org_1")).items()
            if field.startswith(f"{subject}|") and value != "0"
        }

    def held(self) -> set[str]:
        """The messages that have a reservation; they are the same that have a lease."""
        _, _, reservations, leases = books("org_1")
        names = {name.decode() for name in cast(list[bytes], self._store.zrange(leases, 0, -1))}
        assert names == self._hash(reservations).keys()
        return names

    def _hash(self, name: str) -> dict[str, str]:
        found = cast(dict[bytes, bytes], self._store.hgetall(name))
        return {field.decode(): value.decode() for field, value in found.items()}
