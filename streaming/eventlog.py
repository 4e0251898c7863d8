"""The gateway's side of the event log and of the queue."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, cast

from redis.asyncio import Redis
from redis.exceptions import NoScriptError

from common.errors import Gone, NotFound, Overloaded
from inference.protocol import keys, scripts
from inference.protocol.events import MessageEvents
from inference.protocol.outcomes import PRIORITY_HEAD_START_S, CancelReason
from inference.protocol.progress import Entry, Progress, progress_of
from inference.protocol.reports import Delivery
from inference.protocol.requests import GenerationRequest
from inference.protocol.settings import Settings

KEEP_S = 10.0  # how often readers are confirmed
KEEP_AT_ONCE = 50  # in one round trip, and in one hold of the event loop: about 2 ms
TOMBSTONE_S = 24 * 3600
ENDED = 2  # reply of a join

_DELTA = b"event: content_block_delta\n"
_ENDS = (b"event: message_stop\n", b"event: error\n")


class StreamLost(Exception):
    """Raised when the log of a message that is being read has vanished: Redis lost it, or it expired."""


Call = tuple[str, Sequence[str], Sequence[Any]]  # script, keys, arguments


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

    async def open(self, request: GenerationRequest, *, retry_ms: int, read: bool) -> Chunk:
        """Open the log with message_start and queue the request; raise `Overloaded` when the queue is full.

        `read` makes the caller its first reader, who has to `leave` later.
        """
        start = MessageEvents().message_start(
            message_id=request.id, model=request.model, input_tokens=len(request.prompt_ids), retry_ms=retry_ms
        )
        names = (keys.log(request.id), keys.meta(request.id), keys.owner(request.id))
        life = self.longest_life_s
        lease = self.lease_ms if read else 0
        fields = ("key", request.key, "model", request.model)
        opening = (scripts.OPEN, names, (start, life, life + TOMBSTONE_S, request.organization, lease, *fields))
        _, length = await self._run_all([opening, self._enqueueing(request)], noting=request.id)
        if length < 0:
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
        if last_id - after != len(entries):  # Redis came back without its tail, and the worker went on
            raise StreamLost(message_id)
        deltas = sum(_DELTA in frame for frame in frames)
        return Chunk(b"".join(frames), last_id, deltas, any(end in frames[-1] for end in _ENDS))

    async def whole(self, message_id: str) -> bytes:
        """Return all frames of a log."""
        entries = cast(list[Entry], await self._redis.xrange(keys.log(message_id)))
        return b"".join(fields[b"f"] for _, fields in entries)

    async def progress(self, message_id: str, *, until: int | None = None) -> Progress:
        """Return how far a message has come, or had at an event."""
        last = "+" if until is None else f"{until}-0"
        return progress_of(cast(list[Entry], await self._redis.xrange(keys.log(message_id), max=last)))

    async def models(self) -> list[str]:
        """Return the names of all models that ever had a worker."""
        return sorted(name.decode() for name in cast(set[bytes], await self._redis.smembers(keys.MODELS)))

    async def check_is_there(self, message_id: str) -> None:
        """Raise `StreamLost` where a log that should be there is not."""
        if not await self._redis.exists(keys.log(message_id)):
            raise StreamLost(message_id)

    async def join(self, message_id: str, organization: str) -> bool:
        """Become a reader of a message, who has to `leave` later; say whether it has ended.

        Raise `NotFound` where it is not this organisation's, `Gone` where its log has expired.
        """
        names = (keys.meta(message_id), keys.owner(message_id))
        found = int(await self.run(scripts.JOIN, names, (organization, self.lease_ms)))
        if found < 0:
            raise Gone(f"The stream of {message_id} has expired and cannot be resumed.")
        if found == 0:
            raise NotFound(f"There is no message {message_id}.")
        return found == ENDED

    async def check(self, message_id: str, organization: str) -> bool:
        """Say whether a message has ended, without becoming its reader; raise as `join` does."""
        found = await self._redis.hmget(keys.meta(message_id), ["organization", "ended"])
        owner = found[0]
        if owner is None and await self._redis.get(keys.owner(message_id)) == organization.encode():
            raise Gone(f"The stream of {message_id} has expired and cannot be resumed.")
        if owner != organization.encode():
            raise NotFound(f"There is no message {message_id}.")
        return found[1] is not None

    async def keep(self, message_ids: Collection[str]) -> None:
        """Say that messages still have readers here."""
        calls = [(scripts.KEEP, (keys.meta(message_id),), (self.lease_ms,)) for message_id in message_ids]
        for start in range(0, len(calls), KEEP_AT_ONCE):
            await self._run_all(calls[start : start + KEEP_AT_ONCE])

    async def leave(self, message_id: str, *, cancel: CancelReason | None) -> None:
        """Stop being a reader; the last one's `cancel` ends the message, else it has the resume window."""
        window_ms = int(self._settings.resume_window_s * 1000)
        await self.run(scripts.LEAVE, (keys.meta(message_id),), (window_ms, cancel or ""))

    async def length(self, message_id: str) -> int:
        """Return how many events a log has."""
        return int(await self._redis.xlen(keys.log(message_id)))

    async def cancel(self, message_id: str, reason: CancelReason) -> bool:
        """Ask the worker to end a message; say whether there is such a message."""
        return bool(await self.run(scripts.CANCEL, (keys.meta(message_id),), (reason,)))

    async def report(self, delivery: Delivery) -> None:
        """Hand a delivery to the record keepers."""
        await self._redis.xadd(keys.DELIVERIES, {"r": delivery.encode()})

    @property
    def lease_ms(self) -> int:
        """How long a message counts as read without news of its readers."""
        return int((self._settings.resume_window_s + KEEP_S) * 1000)

    @property
    def longest_life_s(self) -> int:
        """After how long even a log that nobody ever ends is gone."""
        s = self._settings
        return int(s.queue_timeout_s + s.request_timeout_s) + s.event_log_ttl_s

    def _enqueueing(self, request: GenerationRequest) -> Call:
        model = request.model
        names = (keys.ready(model), keys.payloads(model), keys.wake(model))
        head_start = int(PRIORITY_HEAD_START_S[request.priority] * 1000)
        return scripts.ENQUEUE, names, (request.id, request.encode(), head_start, self._settings.queue_limit)

    async def _run_all(self, calls: Sequence[Call], *, noting: str = "") -> list[Any]:
        """Run scripts in one round trip, and note a log for the janitor."""
        async with self._redis.pipeline(transaction=False) as pipe:
            for script, names, arguments in calls:
                pipe.evalsha(scripts.sha_of(script), len(names), *names, *arguments)
            if noting:
                pipe.zadd(keys.LOGS, {noting: time.time() * 1000})
            replies = (await pipe.execute(raise_on_error=False))[: len(calls)]
        if any(isinstance(reply, NoScriptError) for reply in replies):  # first use, or Redis has restarted
            return [await self.run(*call) for call in calls]
        for reply in replies:
            if isinstance(reply, Exception):
                raise reply
        return list(replies)

    async def run(self, script: str, names: Sequence[str], arguments: Sequence[Any]) -> Any:
        """Run one script."""
        try:
            return await self._redis.evalsha(scripts.sha_of(script), len(names), *names, *arguments)
        except NoScriptError:  # first use, or Redis has restarted
            return await self._redis.eval(script, len(names), *names, *arguments)
