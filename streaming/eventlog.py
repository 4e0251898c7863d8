"""The gateway's side of the event log and of the queue."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from redis.asyncio import Redis
from redis.exceptions import NoScriptError

from accounts.keys import Caller
from common.errors import Overloaded
from inference.protocol import keys, scripts
from inference.protocol.events import MessageEvents
from inference.protocol.outcomes import PRIORITY_HEAD_START_S, CancelReason
from inference.protocol.progress import Entry, Progress, progress_of
from inference.protocol.reports import Delivery
from inference.protocol.requests import GenerationRequest
from inference.protocol.settings import Settings

_DELTA = b"event: content_block_delta\n"
_ENDS = (b"event: message_stop\n", b"event: error\n")


@dataclass(frozen=True, slots=True)
class Chunk:
    """A run of consecutive events: their frames, the last one's id, how many are deltas, and whether it is the end."""

    frames: bytes
    last_id: int
    deltas: int
    ended: bool


class EventLog:
    """Open, read and cancel the logs of messages."""

    def __init__(self, client: Redis, settings: Settings) -> None:
        self._redis, self._settings = client, settings

    async def open(self, request: GenerationRequest, *, caller: Caller, retry_ms: int) -> Chunk:
        """Open the log with message_start and queue the request; raise `Overloaded` when the queue is full."""
        start = MessageEvents().message_start(
            message_id=request.id, model=request.model, input_tokens=len(request.prompt_ids), retry_ms=retry_ms
        )
        names = (keys.log(request.id), keys.meta(request.id))
        owner = ("attempt", 0, "organization", caller.organization, "key", caller.key, "model", request.model)
        await self._run(scripts.OPEN, names, (start, self._longest_life(), *owner))
        if await self._enqueue(request) < 0:
            await self._redis.delete(*names)
            raise Overloaded("The queue is full. Try again shortly.", headers={"retry-after": "2"})
        return Chunk(start, 1, 0, False)

    async def read(self, message_id: str, *, after: int, count: int) -> Chunk | None:
        """Return up to `count` events after a position, None when there are none."""
        found = await self._redis.xrange(keys.log(message_id), min=f"({after}-0", count=count)
        entries = cast(list[Entry], found)
        if not entries:
            return None
        frames = [fields[b"f"] for _, fields in entries]
        last_id = int(entries[-1][0].partition(b"-")[0])
        deltas = sum(_DELTA in frame for frame in frames)
        return Chunk(b"".join(frames), last_id, deltas, any(end in frames[-1] for end in _ENDS))

    async def progress(self, message_id: str) -> Progress:
        """Return how far a message has come."""
        return progress_of(cast(list[Entry], await self._redis.xrange(keys.log(message_id))))

    async def cancel(self, message_id: str, reason: CancelReason) -> bool:
        """Ask the worker to end a message; say whether there is such a message."""
        return bool(await self._run(scripts.CANCEL, (keys.meta(message_id),), (reason,)))

    async def report(self, delivery: Delivery) -> None:
        """Hand a delivery to the record keepers."""
        await self._redis.xadd(keys.DELIVERIES, {"r": delivery.encode()})

    def _longest_life(self) -> int:
        """Seconds after which even a log that nobody ever ends is gone."""
        s = self._settings
        return int(s.queue_timeout_s + s.request_timeout_s) + s.event_log_ttl_s

    async def _enqueue(self, request: GenerationRequest) -> int:
        model = request.model
        names = (keys.ready(model), keys.payloads(model), keys.wake(model))
        head_start = int(PRIORITY_HEAD_START_S[request.priority] * 1000)
        arguments = (request.id, request.encode(), head_start, self._settings.queue_limit)
        return int(await self._run(scripts.ENQUEUE, names, arguments))

    async def _run(self, script: str, names: Sequence[str], arguments: Sequence[Any]) -> Any:
        sha = hashlib.sha1(script.encode(), usedforsecurity=False).hexdigest()
        try:
            return await self._redis.evalsha(sha, len(names), *names, *arguments)
        except NoScriptError:  # first use, or Redis has restarted
            return await self._redis.eval(script, len(names), *names, *arguments)
