"""Hearing of new events: one connection to Redis, whatever the number of open streams."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import hiredis
from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError

from inference.protocol import keys
from streaming.eventlog import Chunk
from streaming.tasks import end

logger = logging.getLogger(__name__)

PATIENCE_S = 10.0  # how long a new reader waits for Redis to come back
READ_SIZE = 1 << 16
PING_S = 10.0
TICK_S = 0.1
_IDLE_CHANNEL = "sluice:idle"  # keeps the connection subscribed while no stream is open


@dataclass(frozen=True, slots=True)
class Announcement:
    """Events that were just appended: the id of the first, and the events themselves as a short cut."""

    first_id: int
    chunk: Chunk


def parse(payload: bytes) -> Announcement:
    """Read what the append script published: `first last deltas ended`, a line feed, the frames."""
    head, _, frames = payload.partition(b"\n")
    first, last, deltas, ended = head.split(b" ")
    return Announcement(int(first), Chunk(frames, int(last), int(deltas), ended == b"1"))


class Subscription:
    """The announcements of one message for one reader, at most `limit` waiting; what comes on top is only noted."""

    def __init__(self, hub: Announcements, channel: str, limit: int) -> None:
        self.missed = False  # something was announced that is not here: the log has it
        self._hub, self._channel, self._limit = hub, channel, limit
        self._waiting: deque[bytes] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._due = 0.0

    async def get(self, timeout: float) -> Announcement | None:
        """Return the next announcement; None after `timeout` s (and up to `TICK_S` more), or when one was missed."""
        if not self._waiting and not self.missed:
            self._due = time.monotonic() + timeout
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        return parse(self._waiting.popleft()) if self._waiting else None

    def put(self, payload: bytes) -> None:
        """Take an announcement, or only note that there was one where too many wait."""
        if len(self._waiting) < self._limit:
            self._waiting.append(payload)
            self._wake()
        else:
            self.miss()

    def miss(self) -> None:
        """Forget what waits: the reader goes on from the log."""
        self._waiting.clear()
        self.missed = True
        self._wake()

    def tick(self, now: float) -> None:
        """Wake a reader that has waited long enough. One clock for all: a timer for each event costs too much."""
        if now >= self._due:
            self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def confirmed(self) -> None:
        """Wait until all that is announced is heard."""
        await self._hub.confirmed(self._channel)

    async def __aenter__(self) -> Subscription:
        await self._hub.add(self._channel, self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._hub.remove(self._channel, self)


class Announcements:
    """Spread what Redis announces to the readers in this process.

    redis-py connects (URL, TLS, password); from then on the bytes go straight through hiredis, which costs a quarter
    of its pub/sub client per event.
    """

    def __init__(self, client: Redis) -> None:
        """Take a client for its connection settings alone; it must speak RESP 2."""
        self._pool: Any = client.connection_pool
        self._connection: Any = None
        self._up = asyncio.Event()
        self._heard_at = 0.0
        self._readers: dict[bytes, list[Subscription]] = {}
        self._confirmed: dict[bytes, asyncio.Event] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def subscribe(self, message_id: str, *, limit: int) -> Subscription:
        """Return a context in which a message's announcements are heard, from its entry on."""
        return Subscription(self, keys.channel(message_id), limit)

    def start(self) -> None:
        """Begin to listen."""
        self._tasks = [asyncio.create_task(self._run()), asyncio.create_task(self._tick())]

    async def close(self) -> None:
        """Stop listening."""
        await end(self._tasks)

    async def add(self, channel: str, subscription: Subscription) -> None:
        """Begin to hear a channel for a subscription; what is announced before `confirmed` returns may be missed."""
        name = channel.encode()
        self._readers.setdefault(name, []).append(subscription)
        if self._up.is_set():
            try:
                await self._ask_for(name)
            except (RedisError, OSError):
                pass  # the connection is gone; the next one asks for all channels

    async def confirmed(self, channel: str) -> None:
        """Wait until Redis has confirmed that a channel is heard; raise `RedisConnectionError` after `PATIENCE_S`."""
        name = channel.encode()
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self._up.wait()
                await self._ask_for(name)
                await self._confirmed[name].wait()
        except TimeoutError:
            raise RedisConnectionError("no subscription in time") from None

    async def _ask_for(self, name: bytes) -> None:
        if name not in self._confirmed:
            self._confirmed[name] = asyncio.Event()
            await self._send("SUBSCRIBE", name)

    async def remove(self, channel: str, subscription: Subscription) -> None:
        """Stop hearing a channel for a subscription."""
        name = channel.encode()
        readers = self._readers[name]
        readers.remove(subscription)
        if not readers:
            del self._readers[name]
            if self._confirmed.pop(name, None) and self._up.is_set():
                try:
                    await self._send("UNSUBSCRIBE", name)
                except (RedisError, OSError):
                    pass  # the connection is gone, and the subscription with it

    async def _run(self) -> None:
        """Keep a connection, for ever."""
        pause = 0.05
        while True:
            try:
                await self._listen()
            except Exception as error:  # whatever it was, without this connection nothing is heard
                logger.warning("announcements: connection lost (%r)", error)
            finally:
                await self._disconnect()
            await asyncio.sleep(pause)
            pause = min(pause * 2, 1.0)

    async def _listen(self) -> None:
        """Connect, subscribe again to all there is, and deliver until the connection is lost."""
        self._connection = self._pool.make_connection()
        await self._connection.connect()
        stream, replies = self._connection._reader, hiredis.Reader()
        # Readers that wait for a first confirmation are confirmed by this; the others may have missed something.
        for name in self._readers:
            self._confirmed.setdefault(name, asyncio.Event())
        await self._send("SUBSCRIBE", _IDLE_CHANNEL, *self._confirmed)
        self._up.set()
        pinger = asyncio.create_task(self._ping())
        try:
            while data := await stream.read(READ_SIZE):
                self._heard_at = time.monotonic()
                replies.feed(data)
                while (reply := replies.gets()) is not False:
                    if isinstance(reply, Exception):
                        raise reply
                    self._deliver(*reply)
        finally:
            await end([pinger])
        raise RedisConnectionError("closed by the server")

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            now = time.monotonic()
            for readers in self._readers.values():
                for subscription in readers:
                    subscription.tick(now)

    async def _ping(self) -> None:
        """Notice a connection that is dead without saying so."""
        self._heard_at = time.monotonic()
        while True:
            await asyncio.sleep(PING_S)
            if time.monotonic() - self._heard_at > 2.5 * PING_S:
                await self._disconnect()
                return
            await self._send("PING")

    async def wait_up(self) -> None:
        """Wait until we hear of events."""
        await self._up.wait()

    @property
    def up(self) -> bool:
        """Whether we hear of events now."""
        return self._up.is_set()

    async def _disconnect(self) -> None:
        if self._up.is_set():  # readers look at the log, and find out whether Redis is there
            for readers in self._readers.values():
                for subscription in readers:
                    subscription.miss()
        self._up.clear()
        if self._connection is not None:
            await self._connection.disconnect(nowait=True)

    async def _send(self, *command: str | bytes) -> None:
        await self._connection.send_packed_command(self._connection.pack_command(*command), check_health=False)

    def _deliver(self, kind: bytes, channel: bytes, data: bytes | int = 0) -> None:
        if kind == b"message":
            assert isinstance(data, bytes)
            for subscription in self._readers.get(channel, ()):
                subscription.put(data)
        elif kind == b"subscribe" and channel in self._confirmed:
            if self._confirmed[channel].is_set():  # confirmed again: the connection is a new one
                for subscription in self._readers[channel]:
                    subscription.miss()
            self._confirmed[channel].set()
