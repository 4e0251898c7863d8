"""From a request of a batch to a queued message, by the steps of a posted one."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from accounts.callers import Caller
from common.errors import InvalidRequest, NotFound, Overloaded, RateLimited, Unavailable
from inference.protocol.opening import RETRY_MS
from inference.protocol.quotas import long_lease_ms
from inference.protocol.requests import GenerationRequest
from inference.protocol.settings import Settings
from quotas.admission import admit, give_back
from quotas.standings import UNIT, Need, Standing
from streaming.batches.room import Room
from streaming.batches.telling import Telling
from streaming.batches.work import Item
from streaming.catalog import Catalog
from streaming.eventlog import EventLog
from streaming.intake import prepare
from streaming.surfaces.anthropic import wanted
from streaming.surfaces.messages_body import parse_messages
from streaming.timing import Stopwatch

SOON_S, LATER_S = 1.0, 5.0
LONGEST_S = 30.0  # then limits are asked again: somebody may have raised them


class Hold(Exception):
    """Raised where a request has to wait, and with it its batch, or all batches of its key."""

    def __init__(self, seconds: float, *, whole_key: bool = False) -> None:
        super().__init__(f"wait for {seconds:g} s")
        self.seconds, self.whole_key = seconds, whole_key


@dataclass(slots=True)
class Pace:
    """What admission finds of limits: whether a request is larger than one, and for how long the next ones should wait.

    They wait until half of each rate is free again: the rest is for who is in a hurry.
    """

    is_too_large: bool = False
    rest_s: float = 0.0

    def __call__(self, standings: Sequence[Standing], need: Need, now: datetime) -> dict[str, str]:
        """Take note, in the place of making headers."""
        self.is_too_large = any(need.of(s.name) > s.limit for s in standings)
        rests = [(s.settled + (s.reserved - s.limit / 2) * UNIT) / s.limit / 1000 for s in standings if s.is_rate]
        self.rest_s = min(max([0.0, *rests]), LONGEST_S)
        return {}


class Submission:
    """Submits requests."""

    def __init__(self, log: EventLog, catalog: Catalog, settings: Settings, room: Room, telling: Telling) -> None:
        self._log, self._catalog, self._settings, self._room, self._telling = log, catalog, settings, room, telling

    async def submit(self, item: Item, caller: Caller) -> tuple[GenerationRequest, float]:
        """Queue a request; return it, and for how many seconds its key's next one should wait.

        Raise `Hold` where it has to wait itself, and what a POST would be told where it cannot be served. Once it was
        queued nothing is raised: to do all this again, after a crash, changes nothing.
        """
        watch = Stopwatch(stages=item.stages)
        prepared = item.prepared or await self._prepare(item, caller, watch)
        item.prepared = prepared
        if not self._room.has(prepared.model):
            raise Hold(0.0)
        request = replace(
            prepared,
            id=item.id,
            priority=caller.priority,
            policy=await self._catalog.policies.reference(caller.policy),
            patience_s=self._settings.batch_expires_s,
            created_at=time.time() - sum(item.stages.values()) / 1000,  # so long ago, but for what it was held
        )
        rest_s = await self._admit(request, caller)
        watch.stage("admission")
        try:
            await self._log.open(self._telling.followed(request), retry_ms=RETRY_MS, read=False)
        except Overloaded:
            await give_back(self._log.run, request.organization, request.id)
            raise Hold(SOON_S) from None
        watch.stage("enqueue")
        return request, rest_s

    async def _prepare(self, item: Item, caller: Caller, watch: Stopwatch) -> GenerationRequest:
        body = parse_messages(item.params)
        if body.stream:
            raise InvalidRequest("stream: not supported in a batch.", code="unsupported_parameter")
        try:
            return await prepare(self._catalog, wanted(body), caller, watch)
        except Unavailable:  # no worker is there
            raise Hold(SOON_S) from None
        except NotFound:
            if body.model in await self._log.models():  # its workers will come back
                raise Hold(LATER_S) from None
            raise

    async def _admit(self, request: GenerationRequest, caller: Caller) -> float:
        pace = Pace()
        try:
            await admit(
                self._log.run,
                caller,
                message_id=request.id,
                input_tokens=len(request.prompt_ids),
                max_tokens=request.max_tokens,
                created_at=request.created_at,
                lease_ms=long_lease_ms(self._settings),
                form=pace,
                note=_nobody,
            )
        except RateLimited as error:
            if pace.is_too_large:
                raise
            raise Hold(min(float(error.headers["retry-after"]), LONGEST_S), whole_key=True) from None
        return pace.rest_s


def _nobody(_: Standing) -> None:
    """Count no refusal: whoever waits was refused nothing."""
