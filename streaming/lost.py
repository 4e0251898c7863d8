"""Ending messages that have a log, but are in no queue: Redis came back without the last of what it had been told.

No worker will ever claim them, and their readers would wait until the log expires. A worker that still runs such a
message makes its claim anew within a lease, and so that long is waited. Of a message that lost its log as well, only
the gateway knows that has its reader: there it is accounted for.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, cast

from redis.asyncio import Redis

from inference.protocol import keys, scripts
from inference.protocol.quotas import accounting
from inference.protocol.reports import Settlement
from inference.protocol.settings import Settings
from streaming.eventlog import EventLog
from streaming.reaper import Claimed, Reaper

LOOK_S = 5.0
YOUNG_S = 5.0  # a log is listed, by the clock of its gateway, before its request is queued
AT_ONCE = 200


class LostMessages:
    """Watches the logs of running messages."""

    def __init__(
        self,
        client: Redis,
        log: EventLog,
        reaper: Reaper,
        settings: Settings,
        *,
        gateway: str,
        clock: Callable[[], float] = time.time,
        note: Callable[[Settlement], None] = lambda _: None,
    ) -> None:
        """`note` is told of each message that was settled here, and not by the reaper."""
        self._redis, self._log, self._reaper, self._settings = client, log, reaper, settings
        self._gateway, self._clock, self._note = gateway, clock, note
        self._watched: dict[str, float | None] = {}  # running messages, and since when each is in no queue
        self._seen_until = 0.0  # seconds; logs opened before are watched already, or have ended

    async def look(self) -> None:
        """Notice new logs, forget those that ended, end those that have been in no queue for a lease."""
        await self._notice()
        names = list(self._watched)
        for start in range(0, len(names), AT_ONCE):
            await self._check(names[start : start + AT_ONCE])

    async def account_for(self, facts: dict[str, Any]) -> None:
        """Settle a message whose log is gone, unless that has expired or a worker will do it."""
        name, model = facts["id"], facts["model"]
        if await self._redis.exists(keys.owner(name)) or await self._queued([name]):
            return
        settlement = Settlement(
            **facts,
            outcome="error",
            output_tokens=0,
            attempts=0,
            worker=self._gateway,
            finished_at=self._clock(),
            queue_ms=0.0,
            generation_ms=0.0,
        )
        await self._log.run(*accounting(settlement, pen=0))
        await self._redis.xadd(keys.settlements(model), {"r": settlement.encode()})
        await self._redis.hincrby(keys.outcomes(model), settlement.outcome, 1)
        self._note(settlement)

    async def _notice(self) -> None:
        until = self._clock() - YOUNG_S
        found = await self._redis.zrangebyscore(keys.LOGS, f"({self._seen_until * 1000}", until * 1000)
        self._watched |= {name.decode(): None for name in cast(list[bytes], found)}
        self._seen_until = until

    async def _check(self, names: list[str]) -> None:
        queued = await self._queued(names)
        self._watched |= dict.fromkeys(queued)
        others = [name for name in names if name not in queued]
        models = await self._models_of(others)
        for name in others:
            if name not in models:  # it has ended, and was settled
                del self._watched[name]
            elif await self._is_lost(name):
                await self._end(name, models[name])

    async def _queued(self, names: list[str]) -> set[str]:
        """Return those that wait in a queue or are claimed."""
        found: set[str] = set()
        pens = [f"{name}|pen" for name in names]
        for model in await self._log.models():
            waiting = await self._redis.zmscore(keys.ready(model), names)
            claimed = await self._redis.hmget(keys.attempts(model), pens)
            found |= {n for n, score, pen in zip(names, waiting, claimed, strict=True) if score is not None or pen}
        return found

    async def _models_of(self, names: list[str]) -> dict[str, str]:
        """Return the models of those whose log is there and has no end."""
        async with self._redis.pipeline(transaction=False) as pipe:
            for name in names:
                pipe.hmget(keys.meta(name), ["model", "ended"])
            found = await pipe.execute()
        return {n: model.decode() for n, (model, ended) in zip(names, found, strict=True) if model and not ended}

    async def _is_lost(self, name: str) -> bool:
        """Say whether a message that is in no queue has been in none for so long that no worker can have it."""
        since = self._watched[name]
        if since is None:
            self._watched[name] = self._clock()
        return since is not None and self._clock() - since >= self._settings.lease_s

    async def _end(self, name: str, model: str) -> None:
        names = (keys.payloads(model), keys.leases(model), keys.attempts(model))
        pen = await self._log.run(scripts.CLAIM_LOST, names, (name, int(self._settings.lease_s * 1000)))
        if pen:
            claimed = Claimed(id=name, model=model, attempt=0, pen=pen, age_ms=0)
            await self._reaper.end(claimed, await self._log.facts(name), otherwise="error")
