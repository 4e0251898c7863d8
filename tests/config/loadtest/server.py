"""A server of typed events that fits in a test: what it sends is given as a script."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

Step = bytes | float  # to send, or to wait

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"


def chunk(kind: str, **body: object) -> bytes:
    """One event in a chunk of its own, as our gateway sends it."""
    frame = f"id: 1\nevent: {kind}\ndata: {json.dumps({'type': kind} | body)}\n\n".encode()
    return b"%x\r\n%b\r\n" % (len(frame), frame)


def delta(text: str) -> bytes:
    return chunk("content_block_delta", index=0, delta={"type": "text_delta", "text": text})


def ending(tokens: int, reason: str = "end_turn") -> bytes:
    return chunk("message_delta", delta={"stop_reason": reason}, usage={"output_tokens": tokens}) + chunk(
        "message_stop"
    )


def answer(words: int, *, gap_s: float = 0.0, tokens: int | None = None) -> list[Step]:
    """A whole answer: an empty delta, so many words, the end."""
    said = [step for _ in range(words) for step in (gap_s, delta("word"))]
    return [HEAD, chunk("message_start", message={}), delta(""), *said, ending(tokens or words), LAST_CHUNK]


def refusal(status: int, kind: str) -> list[Step]:
    body = json.dumps({"type": "error", "error": {"type": kind, "message": "No."}}).encode()
    return [b"HTTP/1.1 %d No\r\ncontent-length: %d\r\n\r\n%b" % (status, len(body), body)]


@dataclass
class TinyServer:
    """Answers each request by the script that `script` returns for its number."""

    script: Callable[[int], Sequence[Step]]
    url: str = ""
    prompts: list[str] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    open: int = 0
    most_open: int = 0

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        try:
            await self._answer(reader, writer)
        except ConnectionError:
            pass  # the client has left
        finally:
            self.open -= 1
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().splitlines()
        fields = dict(line.split(": ", 1) for line in head[1:] if line)
        body = json.loads(await reader.readexactly(int(fields["content-length"])))
        number = len(self.prompts)
        self.prompts.append(body["messages"][0]["content"])
        self.keys.append(fields["x-api-key"])
        for step in self.script(number):
            if isinstance(step, float):
                await asyncio.sleep(step)
            else:
                writer.write(step)
                await writer.drain()


@asynccontextmanager
async def serving(script: Callable[[int], Sequence[Step]]) -> AsyncIterator[TinyServer]:
    tiny = TinyServer(script)
    async with await asyncio.start_server(tiny.handle, "127.0.0.1", 0) as server:
        tiny.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        yield tiny
