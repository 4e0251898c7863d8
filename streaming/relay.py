"""From the log to the socket: frames as they are, a ping when nothing else was sent."""

from __future__ import annotations

import time

from streaming.asgi import Send
from streaming.readers import Reading
from streaming.surfaces.surface import Surface
from streaming.timing import Stopwatch

SSE_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]


async def relay(reading: Reading, send: Send, watch: Stopwatch, surface: Surface, *, heartbeat_s: float) -> None:
    """Send a message's events until its last; each write is one ASGI body and ends with a whole frame."""
    reader = reading.reader
    while not reader.ended:
        chunk = await reader.next(heartbeat_s)
        reading.blocked_since = time.monotonic()
        if chunk is None:
            await write(send, surface.ping)
        elif frames := surface.translate(chunk.frames):
            await write(send, frames)
            watch.wrote(len(frames), chunk.deltas)
            reading.last_sent = chunk.frames
        reading.blocked_since = None


async def write(send: Send, frames: bytes) -> None:
    """Send frames, with more to come."""
    await send({"type": "http.response.body", "body": frames, "more_body": True})
