"""From the log to the socket: frames as they are, a ping when nothing else was sent."""

from __future__ import annotations

from inference.protocol.events import PING
from streaming.asgi import Send
from streaming.reader import LogReader
from streaming.timing import Stopwatch

SSE_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]


async def relay(reader: LogReader, send: Send, watch: Stopwatch, *, heartbeat_s: float) -> None:
    """Send a message's events until its last; each write is one ASGI body and ends with a whole frame."""
    while not reader.ended:
        chunk = await reader.next(heartbeat_s)
        if chunk is None:
            await write(send, PING)
        else:
            await write(send, chunk.frames)
            watch.wrote(len(chunk.frames), chunk.deltas)


async def write(send: Send, frames: bytes) -> None:
    """Send frames, with more to come."""
    await send({"type": "http.response.body", "body": frames, "more_body": True})
