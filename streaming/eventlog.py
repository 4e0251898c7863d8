"""The gateway's side of the event log and of the queue."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

from redis.asyncio import Redis
from redis.exceptions import NoScriptError, ResponseError

from common.errors import Gone, NotFound, Overloaded
from inference.protocol import keys, scripts
from inference.protocol.full import is_full
from inference.protocol.opening import first_frame, longest_life_s, opening
from inference.protocol.outcomes import QUEUE_SHARE, CancelReason
from inference.protocol.progress import Entry, Progress, further
from inference.protocol.queueing import head_start_ms
from inference.protocol.reports import LOGGED, Delivery, common_in
from inference.protocol.requests import GenerationRequest
from inference.protocol.settings import Settings

KEEP_S = 10.0  # how often readers are confirmed
AT_ONCE = 50  # messages, in one round trip, and in one hold of the event loop: about 2 ms
ENDED = 2  # reply of a join
SLICE = 500  # events that are read at once

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


class Usage(NamedTuple):
    """What a message has used."""

    input_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """A message that a reader has joined: how long ago it came, how many events it has, what a `Report` says of it."""

    ended: bool
    age_ms: float
    length: int
    facts: dict[str, Any]


class EventLog:
    """Open, read and cancel the logs of messages."""

    def __init__(self, client: Redis, settings: Settings, *, gateway: str = "") -> None:
        """`gateway` is told to operators as who serves the readers."""
        self._redis, self._settings, self._gateway = client, settings, gateway

    async def open(self, request: GenerationRequest, *, retry_ms: int, read: bool) -> Chunk:
        """Open the log with message_start and queue the request; raise `Overloaded` when the queue or Redis is full.

        `read` makes the caller its first reader, who has to `leave` later. Without one, the message is detached.
        """
        request = replace(request, detached=not read)
        start = first_frame(request, retry_ms=retry_ms)
        call = opening(request, self._settings, start, lease_ms=self.lease_ms if read else 0, gateway=self._gateway)
        try:
            _, length = await self._run_all([call, self._enqueueing(request)], noting=request.id)
        except ResponseError as error:
            if not is_full(error):
                raise
            length = -1
        if length < 0:
            await self.run(scripts.UNOPEN, call[1], ())
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
        slices = [[fields[b"f"] for _, fields in entries] async for entries in self._slices(message_id)]
        return b"".join(frame for frames in slices for frame in frames)

    async def progress(self, message_id: str, *, until: int | None = None) -> Progress:
        """Return how far a message has come, or had at an event."""
        progress = Progress(last_id=0)
        async for entries in self._slices(message_id, until=until):
            further(progress, entries)
        return progress

    async def usages(self, asked: Sequence[tuple[str, int]]) -> list[Usage]:
        """Return what messages had used at an event each; at most `AT_ONCE` of them."""
        calls: list[Call] = [(scripts.USAGE, (keys.log(name), keys.meta(name)), (until,)) for name, until in asked]
        replies = await self._run_all(calls)
        return [
            await self._usage_by_log(name, until) if found is None else Usage(*found)
            for (name, until), found in zip(asked, replies, strict=True)
        ]

    async def outcome(self, message_id: str) -> str | None:
        """Return how a message ended, None while it runs."""
        found = cast(bytes | None, await self._redis.hget(keys.meta(message_id), "outcome"))
        return None if found is None else found.decode()

    async def models(self) -> list[str]:
        """Return the names of all models that ever had a worker."""
        return sorted(name.decode() for name in cast(set[bytes], await self._redis.smembers(keys.MODELS)))

    async def check_is_there(self, message_id: str, *, after: int) -> None:
        """Raise `StreamLost` where a log is not there that should be, or ended without an event after a position."""
        there, ended = await self._redis.hmget(keys.meta(message_id), ["last", "ended"])
        if there is None or (ended is not None and int(ended) <= after):
            raise StreamLost(message_id)

    async def join(self, message_id: str, organization: str) -> Joined:
        """Become a reader of a message, who has to `leave` later.

        Raise `NotFound` where it is not this organisation's, `Gone` where its log has expired.
        """
        names = (keys.meta(message_id), keys.owner(message_id))
        found, *rest = await self.run(scripts.JOIN, names, (organization, self.lease_ms, self._gateway))
        if found < 0:
            raise Gone(f"The stream of {message_id} has expired and cannot be resumed.")
        if found == 0:
            raise NotFound(f"There is no message {message_id}.")
        age_ms, length, *known = rest
        facts = common_in(message_id, (organization.encode(), *known))
        assert facts is not None, "who opens a log says all of it"
        return Joined(ended=found == ENDED, age_ms=float(age_ms), length=length, facts=facts)

    async def facts(self, message_id: str) -> dict[str, Any] | None:
        """Return what a `Report` says of a message, None when its log is gone."""
        found = await self._redis.hmget(keys.meta(message_id), LOGGED)
        return common_in(message_id, cast(list[bytes | None], found))

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
        for start in range(0, len(calls), AT_ONCE):
            await self._run_all(calls[start : start + AT_ONCE])

    async def leave(self, message_id: str, *, cancel: CancelReason | None) -> bool:
        """Stop being a reader; the last one's `cancel` ends the message, else it has the resume window.

        Return whether there is such a message still.
        """
        window_ms = int(self._settings.resume_window_s * 1000)
        return bool(await self.run(scripts.LEAVE, (keys.meta(message_id),), (window_ms, cancel or "")) >= 0)

    async def length(self, message_id: str) -> int:
        """Return how many events a log has."""
        return int(await self._redis.xlen(keys.log(message_id)))

    async def cancel(self, message_id: str, reason: CancelReason) -> bool:
        """Ask the worker to end a message; say whether there is such a message."""
        return bool(await self.run(scripts.CANCEL, (keys.meta(message_id),), (reason,)))

    async def report(self, delivery: Delivery) -> None:
        """Hand a delivery to the record keepers."""
        await self.run(scripts.SPOOL, (keys.DELIVERIES,), (0, "r", delivery.encode()))

    @property
    def lease_ms(self) -> int:
        """How long a message counts as read without news of its readers."""
        return int((self._settings.resume_window_s + KEEP_S) * 1000)

    @property
    def longest_life_s(self) -> int:
        """After how long even a log that nobody ever ends is gone."""
        return longest_life_s(self._settings)

    async def _slices(self, message_id: str, *, until: int | None = None) -> AsyncIterator[list[Entry]]:
        """Read a log a slice at a time, since a long one read at once holds up Redis and all streams here."""
        start, last = "-", "+" if until is None else f"{until}-0"
        while True:
            found = await self._redis.xrange(keys.log(message_id), min=start, max=last, count=SLICE)
            entries = cast(list[Entry], found)
            if entries:
                yield entries
                start = f"({entries[-1][0].decode()}"
            if len(entries) < SLICE:
                return

    async def _usage_by_log(self, message_id: str, until: int) -> Usage:
        progress = await self.progress(message_id, until=until)
        return Usage(progress.input_tokens, len(progress.token_ids))

    def _enqueueing(self, request: GenerationRequest) -> Call:
        model = request.model
        names = (keys.ready(model), keys.payloads(model), keys.wake(model))
        head_start = head_start_ms(request.priority)
        limit = max(1, int(self._settings.queue_limit * QUEUE_SHARE[request.priority]))
        return scripts.ENQUEUE, names, (request.id, request.encode(), head_start, limit)

    async def _run_all(self, calls: Sequence[Call], *, noting: str = "") -> list[Any]:
        """Run scripts in one round trip. `noting` lists a log, before all: one that lost its queue is found by that."""
        async with self._redis.pipeline(transaction=False) as pipe:
            if noting:
                pipe.zadd(keys.LOGS, {noting: time.time() * 1000})
            for script, names, arguments in calls:
                pipe.evalsha(scripts.sha_of(script), len(names), *names, *arguments)
            replies = (await pipe.execute(raise_on_error=False))[-len(calls) :]
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
