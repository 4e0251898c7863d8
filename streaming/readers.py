"""The readers that this gateway serves: their messages are kept alive, and those that do not read are dropped."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from inference.protocol.closeups import blocked_field
from streaming.announcements import Subscription
from streaming.eventlog import KEEP_S, Chunk, EventLog
from streaming.reader import LogReader

LOOK_S = 0.5
NO_PROGRESS_S = 30.0  # a client whose socket took nothing for so long is dropped
STALL_S = 5.0  # one with more than the buffer before it, after so long


@dataclass(eq=False, slots=True)
class Reading:
    """One reader: `blocked_since` is when its socket ceased to take what we write, None while it does.

    `failed` says that it was told an error of ours.
    """

    message_id: str
    subscription: Subscription
    reader: LogReader
    last_sent: bytes = b""  # the events that went out last, in the log's own form
    blocked_since: float | None = None
    slow: asyncio.Event = field(default_factory=asyncio.Event)
    failed: bool = False

    def sent(self, chunk: Chunk) -> None:
        """Note what went out; the end with what came before, since a slice may part it from the reason it has."""
        self.last_sent = self.last_sent + chunk.frames if chunk.ended else chunk.frames


class Readers:
    """All readers of this process."""

    def __init__(self, log: EventLog, *, buffer_events: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._log, self._buffer_events, self._clock = log, buffer_events, clock
        self._all: set[Reading] = set()
        self._keep_due = clock() + KEEP_S

    def add(self, reading: Reading) -> None:
        self._all.add(reading)

    def remove(self, reading: Reading) -> None:
        self._all.discard(reading)

    @property
    def count(self) -> int:
        return len(self._all)

    def about(self) -> dict[str, Any]:
        """Say which of them take nothing: a part of this gateway's heartbeat."""
        now = self._clock()
        waits = ((r.message_id, r.reader.cursor, now - r.blocked_since) for r in self._all if r.blocked_since)
        return blocked_field(waits)

    async def look(self) -> None:
        """Mark slow readers; now and then tell that their messages are still read."""
        now = self._clock()
        for reading in list(self._all):
            if reading.blocked_since is not None and await self._is_slow(reading, now - reading.blocked_since):
                reading.slow.set()
        if now >= self._keep_due:
            self._keep_due = now + KEEP_S
            await self._log.keep({reading.message_id for reading in self._all})

    async def _is_slow(self, reading: Reading, blocked_s: float) -> bool:
        if blocked_s > NO_PROGRESS_S:
            return True
        if blocked_s < STALL_S:
            return False
        return await self._log.length(reading.message_id) - reading.reader.cursor > self._buffer_events
