"""The pages that this process serves with the table of open streams: one subscription for all of them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque

from redis.asyncio import Redis
from redis.exceptions import RedisError

from console.live.table import Message, decode
from inference.protocol import keys

logger = logging.getLogger(__name__)

MOST = 32  # pages
WAITING = 3  # messages that may wait for a slow page, which then gets the whole table
WATCHED_S = 5
KEEP_S = 1.0
AGAIN_S = 1.0


class TooMany(Exception):
    """Raised where so many pages watch that one more would cost the streams."""


class Watcher:
    """A page. It gets the whole table first, then each change in turn; after a gap the whole again."""

    def __init__(self) -> None:
        self._number: int | None = None  # of the last message it got
        self._waiting: deque[bytes] = deque()
        self._news = asyncio.Event()

    @property
    def lost(self) -> bool:
        """Whether it needs the whole table."""
        return self._number is None

    def put(self, message: Message) -> None:
        """Take a message if it follows."""
        if message.kind == "whole":
            if self._number == message.number:
                return
            self._waiting.clear()
        elif self._number is None or message.number != self._number + 1 or len(self._waiting) >= WAITING:
            self.miss()
            return
        self._number = message.number
        self._waiting.append(message.frame)
        self._news.set()

    def miss(self) -> None:
        """Note that something was missed."""
        self._number = None
        self._waiting.clear()

    async def next(self, timeout: float) -> bytes | None:
        """Return the next event; None when there was none for `timeout` s."""
        try:
            async with asyncio.timeout(timeout):
                while not self._waiting:
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            return None
        return self._waiting.popleft()


class Watchers:
    """All pages of this process. It listens to Redis only while there are any."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._all: set[Watcher] = set()
        self._listening: asyncio.Task[None] | None = None

    def join(self) -> Watcher:
        """Begin to watch; raise `TooMany`. Whoever joined has to `leave` later."""
        if len(self._all) >= MOST:
            raise TooMany
        watcher = Watcher()
        self._all.add(watcher)
        if self._listening is None:
            self._listening = asyncio.create_task(self._listen_on(), name="console")
        return watcher

    def leave(self, watcher: Watcher) -> None:
        self._all.discard(watcher)
        if not self._all and self._listening is not None:
            self._listening.cancel()
            self._listening = None

    @property
    def _goes_on(self) -> bool:
        """Whether the task that asks has somebody to listen for; redis-py may have swallowed its cancel."""
        return bool(self._all) and self._listening is asyncio.current_task()

    async def _listen_on(self) -> None:
        """Listen until nobody watches, whatever happens to Redis."""
        while self._goes_on:
            try:
                await self._listen()
            except (RedisError, OSError, ValueError) as error:  # the last: another version made the table
                logger.warning("watching streams: %r", error)
                for watcher in self._all:
                    watcher.miss()
                await asyncio.sleep(AGAIN_S)

    async def _listen(self) -> None:
        client = Redis.from_url(self._url, socket_connect_timeout=5, socket_timeout=5)
        heard = client.pubsub(ignore_subscribe_messages=True)
        try:
            await heard.subscribe(keys.TABLE)
            keep_due = 0.0
            while self._goes_on:
                if time.monotonic() >= keep_due:
                    keep_due = time.monotonic() + KEEP_S
                    await self._keep(client)
                message = await heard.get_message(timeout=KEEP_S / 4)
                if message is not None:
                    told = decode(message["data"])
                    for watcher in self._all:
                        watcher.put(told)
        finally:
            await heard.aclose()  # type: ignore[no-untyped-call]  # redis-py left it out
            await client.aclose()

    async def _keep(self, client: Redis) -> None:
        """Say that somebody watches, and ask for the whole table where somebody needs it."""
        await client.set(keys.WATCHED, "1", ex=WATCHED_S)
        if any(watcher.lost for watcher in self._all):
            await client.set(keys.ASKED, "1", ex=WATCHED_S)
