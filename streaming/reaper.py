"""Ending what no worker will: requests that waited too long, and those whose workers are all gone.

Every gateway looks; a claim is one atomic step, so each message is ended by one of them, under the same fence as a
worker's.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from inference.protocol import keys, scripts
from inference.protocol.events import MessageEvents
from inference.protocol.outcomes import CANCEL_REASONS, Outcome
from inference.protocol.progress import Progress
from inference.protocol.quotas import accounting
from inference.protocol.reports import Settlement, common_of
from inference.protocol.requests import GenerationRequest, NewerVersion, PayloadError
from inference.protocol.settings import Settings
from streaming.eventlog import EventLog

logger = logging.getLogger(__name__)

LOOK_S = 1.0
AT_ONCE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """A message that was claimed to be ended; `age_ms` is the time since it came into the queue."""

    id: str
    model: str
    attempt: int
    pen: int
    age_ms: int


class Reaper:
    """Looks through the queues of models."""

    def __init__(
        self,
        log: EventLog,
        settings: Settings,
        *,
        gateway: str,
        note: Callable[[Settlement], None] = lambda _: None,
    ) -> None:
        """`note` is told of each message that was settled here."""
        self._log, self._settings, self._gateway, self._note = log, settings, gateway, note

    async def look(self, models: Iterable[str]) -> None:
        """End what is overdue in the queues of some models."""
        s = self._settings
        limits = (int(s.queue_timeout_s * 1000), int(s.request_timeout_s * 1000), int(s.lease_s * 1000), AT_ONCE)
        for model in models:
            found = await self._log.run(scripts.CLAIM_OVERDUE, _queue(model), limits)
            for name, attempt, pen, age_ms, payload in zip(*(iter(found),) * 5, strict=True):
                claimed = Claimed(id=name.decode(), model=model, attempt=attempt, pen=pen, age_ms=age_ms)
                await self.end(claimed, await self._facts(claimed.id, payload))

    async def end_idle(self, message_id: str, model: str) -> None:
        """End a message that was cancelled, unless a worker is at it, who does that."""
        lease_ms = int(self._settings.lease_s * 1000)
        found = await self._log.run(scripts.CLAIM_IDLE, _queue(model), (message_id, lease_ms))
        if found is not None:
            attempt, pen, age_ms, payload = found
            claimed = Claimed(id=message_id, model=model, attempt=attempt, pen=pen, age_ms=age_ms)
            await self.end(claimed, await self._facts(message_id, payload))

    async def end(self, claimed: Claimed, facts: dict[str, Any] | None, *, otherwise: Outcome | None = None) -> None:
        """End a message as its log says already, or for what its client asked, else with a typed error.

        `facts` are what its settlement says of it. The error is `otherwise`, or a timeout where no worker had it.
        """
        taken = await self._log.run(scripts.TAKE, (keys.meta(claimed.id),), (claimed.pen, claimed.age_ms))
        if taken is None:
            return  # a worker came first
        progress, outcome, waited_ms = Progress(last_id=0), otherwise or "timeout", float(claimed.age_ms)
        if taken != 0:
            previous, cancel, ended, waited = (value.decode() for value in taken)
            progress, waited_ms = await self._log.progress(claimed.id), float(waited)
            outcome = ended or cancel or otherwise or ("timeout" if previous == "0" else "worker_lost")
            if not ended:
                await self._write_end(claimed, progress, outcome)
        logger.warning("%s: no worker would end it: %s after %d ms", claimed.id, outcome, claimed.age_ms)
        await self._settle(claimed, facts, progress, outcome, waited_ms)

    async def _facts(self, message_id: str, payload: bytes) -> dict[str, Any] | None:
        """Return what a settlement says of a request. One that we cannot read must not hold up the others."""
        try:
            return common_of(GenerationRequest.decode(payload))
        except (PayloadError, NewerVersion) as error:
            logger.error("%s: its payload cannot be read here: %s", message_id, error)
            return await self._log.facts(message_id)

    async def _write_end(self, claimed: Claimed, progress: Progress, outcome: str) -> None:
        entries = [part for frame in last_frames(progress, outcome) for part in (frame, "")]
        ttl_s = self._settings.event_log_ttl_s
        head = (claimed.pen, keys.channel(claimed.id), progress.last_id + 1, 0, outcome, ttl_s)
        names = (keys.log(claimed.id), keys.meta(claimed.id), keys.owner(claimed.id))
        await self._log.run(scripts.APPEND, names, (*head, *entries))

    async def _settle(
        self, claimed: Claimed, facts: dict[str, Any] | None, progress: Progress, outcome: Outcome, waited_ms: float
    ) -> None:
        settlement, encoded = None, ""  # of a message of which nothing is known
        if facts is not None:
            settlement = Settlement(
                **facts,
                outcome=outcome,
                output_tokens=len(progress.token_ids),
                cached_tokens=progress.cached_tokens,
                attempts=claimed.attempt,
                worker=self._gateway,
                finished_at=time.time(),
                queue_ms=waited_ms,
                generation_ms=0.0,
            )
            encoded = settlement.encode()
            await self._log.run(*accounting(settlement, pen=claimed.pen))
        names = (*_queue(claimed.model), keys.settlements(claimed.model), keys.outcomes(claimed.model))
        if await self._log.run(scripts.SETTLE, names, (claimed.id, claimed.pen, encoded)) and settlement:
            self._note(settlement)


def last_frames(progress: Progress, outcome: str) -> list[bytes]:
    """Return the events that end a message: as its client asked, or with a typed error."""
    events = MessageEvents(last_id=progress.last_id, next_index=progress.blocks, open_block=progress.open_block)
    frames = [events.stop_block()] if progress.open_block == "text" else []
    if outcome in CANCEL_REASONS and progress.open_block != "tool_use":
        usage = {"input_tokens": progress.input_tokens, "output_tokens": len(progress.token_ids)}
        return [*frames, events.message_delta(stop_reason="cancelled", usage=usage), events.message_stop()]
    kind = "timeout_error" if outcome == "timeout" else "api_error"
    return [*frames, events.error(kind=kind, message=_MESSAGES.get(outcome, "The message was cut."))]


_MESSAGES = {
    "timeout": "No worker took this request in time.",
    "worker_lost": "The workers on this request were lost.",
    "error": "The server lost this request.",
}


def _queue(model: str) -> tuple[str, ...]:
    return keys.ready(model), keys.payloads(model), keys.leases(model), keys.attempts(model)
