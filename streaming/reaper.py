"""Ending what no worker will: requests that waited too long, and those whose workers are all gone.

Every gateway looks; a claim is one atomic step, so each message is ended by one of them, under the same fence as a
worker's.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable

from inference.protocol import keys, scripts
from inference.protocol.events import MessageEvents
from inference.protocol.outcomes import CANCEL_REASONS, Outcome
from inference.protocol.progress import Progress
from inference.protocol.reports import Settlement, common_of
from inference.protocol.requests import GenerationRequest, PayloadError
from inference.protocol.settings import Settings
from streaming.eventlog import EventLog

logger = logging.getLogger(__name__)

LOOK_S = 1.0
AT_ONCE = 100


class Reaper:
    """Looks through the queues of models."""

    def __init__(self, log: EventLog, settings: Settings, *, gateway: str) -> None:
        self._log, self._settings, self._gateway = log, settings, gateway

    async def look(self, models: Iterable[str]) -> None:
        """End what is overdue in the queues of some models."""
        s = self._settings
        limits = (int(s.queue_timeout_s * 1000), int(s.request_timeout_s * 1000), int(s.lease_s * 1000), AT_ONCE)
        for model in models:
            found = await self._log.run(scripts.CLAIM_OVERDUE, _queue(model), limits)
            for message_id, attempt, age_ms, payload in zip(*(iter(found),) * 4, strict=True):
                try:
                    await self._end(message_id.decode(), attempt, age_ms, GenerationRequest.decode(payload))
                except PayloadError as error:  # one that we cannot read must not hold up the others
                    logger.error("%s: cannot be ended here: %s", message_id.decode(), error)

    async def _end(self, message_id: str, attempt: int, age_ms: int, request: GenerationRequest) -> None:
        """End one message: with what its log says already, else with a typed error."""
        taken = await self._log.run(scripts.TAKE, (keys.meta(message_id),), (attempt, age_ms))
        if taken is None:
            return  # a worker came first
        progress, outcome, waited_ms = Progress(last_id=0), "timeout", float(age_ms)
        if taken != 0:
            previous, cancel, ended, waited = (value.decode() for value in taken)
            progress, waited_ms = await self._log.progress(message_id), float(waited)
            outcome = ended or cancel or ("timeout" if previous == "0" else "worker_lost")
            if not ended:
                await self._write_end(message_id, attempt, progress, outcome)
        logger.warning("%s: no worker would end it: %s after %d ms", message_id, outcome, age_ms)
        await self._settle(request, attempt, progress, outcome, waited_ms)  # type: ignore[arg-type]  # what logs hold

    async def _write_end(self, message_id: str, attempt: int, progress: Progress, outcome: str) -> None:
        frames = last_frames(progress, outcome)
        entries = [part for frame in frames for part in (frame, "")]
        head = (attempt, keys.channel(message_id), progress.last_id + 1, 0, outcome, self._settings.event_log_ttl_s)
        await self._log.run(scripts.APPEND, (keys.log(message_id), keys.meta(message_id)), (*head, *entries))

    async def _settle(
        self, request: GenerationRequest, attempt: int, progress: Progress, outcome: Outcome, waited_ms: float
    ) -> None:
        settlement = Settlement(
            **common_of(request),
            outcome=outcome,
            output_tokens=len(progress.token_ids),
            attempts=attempt,
            worker=self._gateway,
            finished_at=time.time(),
            queue_ms=waited_ms,
            generation_ms=0.0,
        )
        names = (*_queue(request.model), keys.settlements(request.model))
        await self._log.run(scripts.SETTLE, names, (request.id, attempt, settlement.encode()))


def last_frames(progress: Progress, outcome: str) -> list[bytes]:
    """Return the events that end a message: as its client asked, or with a typed error."""
    events = MessageEvents(last_id=progress.last_id, next_index=progress.blocks, open_block=progress.open_block)
    frames = [events.stop_block()] if progress.open_block == "text" else []
    if outcome in CANCEL_REASONS and progress.open_block != "tool_use":
        usage = {"input_tokens": progress.input_tokens, "output_tokens": len(progress.token_ids)}
        return [*frames, events.message_delta(stop_reason="cancelled", usage=usage), events.message_stop()]
    kind = "timeout_error" if outcome == "timeout" else "api_error"
    return [*frames, events.error(kind=kind, message="No worker took this request in time.")]


def _queue(model: str) -> tuple[str, ...]:
    return keys.ready(model), keys.payloads(model), keys.leases(model), keys.attempts(model)
