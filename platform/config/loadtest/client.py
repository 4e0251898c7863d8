"""One client: an HTTP/1.1 request on a connection of its own, and the stream that answers it.

A protocol, not asyncio's streams: one callback for each packet and nothing else, so that the client is not what is
measured.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from config.loadtest.trace import Trace
from config.loadtest.wire import Event, Frames, Response, decode_event

SLOW_PAUSE_S = 2.0  # what a slow reader waits after each packet
SLOW_BUFFER = 4096  # and what its socket takes meanwhile, so that the server notices


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """Where to ask, as whom, and how to read the data of its events."""

    host: str
    address: tuple[Any, ...]
    family: int
    tls: ssl.SSLContext | None
    head: bytes  # of every request, up to the length of its body
    decode: Callable[[bytes], Event] = decode_event

    @classmethod
    def at(
        cls, url: str, key: str, *, path: str = "/v1/messages", decode: Callable[[bytes], Event] = decode_event
    ) -> Server:
        """Look up an `http(s)://host[:port]`; raise `OSError` when there is no such host."""
        parts = urlsplit(url)
        secure = parts.scheme == "https"
        assert parts.hostname is not None, "the URL was checked"
        port = parts.port or (443 if secure else 80)
        family, _, _, _, address = socket.getaddrinfo(parts.hostname, port, type=socket.SOCK_STREAM)[0]
        head = (
            f"POST {parts.path.rstrip('/')}{path} HTTP/1.1\r\nhost: {parts.netloc.rpartition('@')[2]}\r\n"
            f"x-api-key: {key}\r\nanthropic-version: 2023-06-01\r\ncontent-type: application/json\r\n"
            "accept: text/event-stream\r\nconnection: close\r\ncontent-length: "
        ).encode()
        tls = ssl.create_default_context() if secure else None
        return cls(host=parts.hostname, address=address, family=family, tls=tls, head=head, decode=decode)

    def request(self, body: bytes) -> bytes:
        return b"%b%d\r\n\r\n%b" % (self.head, len(body), body)


def body_of(*, model: str, prompt: str, max_tokens: int) -> bytes:
    """Return the body of a streaming message request."""
    messages = [{"role": "user", "content": prompt}]
    body = {"model": model, "max_tokens": max_tokens, "stream": True, "temperature": 0.0, "messages": messages}
    return json.dumps(body).encode()


async def converse(server: Server, body: bytes, trace: Trace, *, timeout_s: float) -> None:
    """Send one request and read its answer, as the trace's behaviour wants; all that happens is in the trace."""
    try:
        async with asyncio.timeout(timeout_s):
            await _exchange(server, body, trace)
    except TimeoutError:
        trace.error = trace.error or "timeout"
    except ssl.SSLError as error:
        trace.error = f"TLS {error.reason or 'failed'}"
    except OSError as error:
        trace.error = f"connection: {os.strerror(error.errno) if error.errno else type(error).__name__}"
    finally:
        trace.ended = time.perf_counter()


async def _exchange(server: Server, body: bytes, trace: Trace) -> None:
    loop = asyncio.get_running_loop()
    sock = socket.socket(server.family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        if trace.behaviour.slow:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SLOW_BUFFER)
        await loop.sock_connect(sock, server.address)
        name = server.host if server.tls else None
        transport, reader = await loop.create_connection(
            lambda: Reader(trace, server.decode), sock=sock, ssl=server.tls, server_hostname=name
        )
    except BaseException:
        sock.close()
        raise
    try:
        transport.write(server.request(body))
        await reader.over
    finally:
        transport.abort()  # what is still open here is so because its client leaves


class Reader(asyncio.Protocol):
    """Reads one answer into a trace; `over` is done when there is no more to read, or its client leaves."""

    def __init__(self, trace: Trace, decode: Callable[[bytes], Event] = decode_event) -> None:
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._trace, self._decode = trace, decode
        self._response = Response()
        self._frames = Frames()
        self._failure = b""  # the body of an answer that is no stream
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if self.over.done():
            return
        try:
            body = self._response.feed(data)
            if self._response.status == 200:
                self._read(body, time.perf_counter())
            else:
                self._failure += body
        except ValueError:
            self._trace.error = "malformed response"
            self._finish()
        else:
            if self._response.ended:
                self._conclude()
            elif self._trace.behaviour.slow:
                self._pause()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.over.done():
            self._response.close()
            self._conclude()

    def _read(self, body: bytes, now: float) -> None:
        trace = self._trace
        for data in self._frames.feed(body):
            trace.see(self._decode(data), now)
            if trace.behaviour.leave_after is not None and trace.deltas >= trace.behaviour.leave_after:
                trace.left = True
                self._finish()
                return

    def _conclude(self) -> None:
        """Say what the answer was worth now that it has ended, or broken off."""
        status, trace = self._response.status, self._trace
        if not status:
            trace.error = "no response"
        elif status != 200:
            trace.error = f"http {status} {_kind_of(self._failure)}".rstrip()
        elif not trace.error and not trace.terminal:
            trace.error = "no terminal event"
        elif not trace.error and not self._response.ended:
            trace.error = "cut off after its last event"
        self._finish()

    def _finish(self) -> None:
        if not self.over.done():
            self.over.set_result(None)

    def _pause(self) -> None:
        transport = self._transport
        assert transport is not None
        transport.pause_reading()
        asyncio.get_running_loop().call_later(SLOW_PAUSE_S, self._resume)

    def _resume(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()


def _kind_of(body: bytes) -> str:
    """Return the error type that a response's body names, or ""."""
    try:
        error = decode_event(body).error
    except ValueError:
        return ""
    return error.type if error else ""
