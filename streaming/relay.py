"""From the log to the socket: frames as they are, a ping when nothing else was sent."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from streaming.readers import Reading
from streaming.surfaces.surface import Surface
from streaming.timing import Stopwatch

Write = Callable[[bytes], Awaitable[None]]

SSE_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]


async def relay(reading: Reading, write: Write, watch: Stopwatch, surface: Surface, *, heartbeat_s: float) -> None:
    """Send a message's events until its last; each write ends with a whole frame."""
    reader = reading.reader
    while not reader.ended:
        chunk = await reader.next(heartbeat_s)
        reading.blocked_since = time.monotonic()
        if chunk is None:
            await write(surface.ping)
            watch.pings += 1
        else:
            reading.sent(chunk)  # before the wait: it is on its way, even if we are stopped in it
            if frames := surface.translate(chunk.frames):
                await write(frames)
                watch.write_s += time.monotonic() - reading.blocked_since
                watch.wrote(len(frames), chunk.deltas)
        reading.blocked_since = None
