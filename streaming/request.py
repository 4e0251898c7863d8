"""One HTTP request in our server: flow control, limits on what a client may send, and a way to cut it off."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import daphne.server  # noqa: F401 - first of all, since it installs the reactor that we import below
from daphne.http_protocol import WebRequest
from twisted.internet import reactor
from twisted.internet.tcp import Server as TcpServer
from twisted.web.http import HTTPChannel

from common.errors import ApiError, RequestTooLarge, Timeout
from common.ids import new_id

IDLE_S = 60.0  # for an HTTP/2 connection without streams
UPLOAD_S = 30.0  # for a whole request to arrive, so that slow clients cannot hold the server


class Request(WebRequest):  # type: ignore[misc]  # Twisted and Daphne have no types
    """Daphne's request, whose sender can wait for the socket, and whose body is refused while it comes."""

    max_body_bytes = 4_000_000

    def __init__(self, *arguments: Any, **more: Any) -> None:
        self._gate: asyncio.Event | None = None
        self._refused = False
        self._refusal = b""
        self._received = 0
        # Django parses forms for itself; Twisted would do it here, before anybody has shown a key.
        super().__init__(*arguments, parsePOSTFormSubmission=False, **more)
        self._deadline = reactor.callLater(UPLOAD_S, self._too_slow)
        self._set_idle_timeout(None)

    def __repr__(self) -> str:
        """Leave the query out: it may hold a token, and Daphne logs this."""
        path = getattr(self, "path", b"").decode("latin-1")
        return f"<{type(self).__name__} {getattr(self, 'method', b'').decode('latin-1')} {path}>"

    # What comes in:

    def gotLength(self, length: int | None) -> None:
        """Look at the announced length of the body."""
        if length is not None and length > self.max_body_bytes:
            self._refuse(RequestTooLarge(f"The body is larger than the {self.max_body_bytes} bytes allowed."))
        super().gotLength(0 if self._refused else length)

    def handleContentChunk(self, data: bytes) -> None:
        """Take a piece of the body, unless it becomes too long."""
        self._received += len(data)
        if self._received > self.max_body_bytes:
            self._refuse(RequestTooLarge(f"The body is larger than the {self.max_body_bytes} bytes allowed."))
        if not self._refused:
            super().handleContentChunk(data)

    def process(self) -> Any:
        """Begin to answer: the request is here."""
        self._disarm()
        if not self._refused:
            return super().process()
        if self._refusal:
            self.write(self._refusal)
            self.finish()
        return None

    # What goes out:

    def handle_reply(self, message: dict[str, Any]) -> None:
        """Take a reply from the application; from the first on, the transport tells when it is full."""
        starts = message["type"] == "http.response.start"
        if starts and not self._response_started and not self.finished and self.channel is not None:
            self._gate = asyncio.Event()
            self._gate.set()
            self.registerProducer(self, True)
        elif self.method == b"HEAD" and self.startedWriting:
            message = message | {"body": b""}  # Daphne writes past Twisted's own guard
        super().handle_reply(message)

    def write_now(self, frames: bytes) -> bool:
        """Write a piece of a chunked HTTP/1.1 response straight to the socket; say whether that was possible.

        Twisted hands every write to its reactor, which costs more than all the rest of an event's way. Where nothing
        waits to be written before it, the bytes may as well go at once. See tests/streaming/test_request.py: the
        client sees the same bytes either way.
        """
        if not frames:
            return True  # an empty chunk would end the response
        transport: Any = getattr(getattr(self, "channel", None), "transport", None)  # none after the end
        if (
            type(transport) is not TcpServer  # TLS and HTTP/2 have transports of their own
            or not self.chunked
            or not self.startedWriting
            or self.finished
            or transport.disconnecting
            or not transport.connected
            or transport.dataBuffer
            or transport._tempDataBuffer
        ):
            return False
        data = b"%x\r\n%b\r\n" % (len(frames), frames)
        try:
            sent = transport.socket.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            return False  # Twisted finds out for itself, and tells the application
        if sent < len(data):
            transport.write(data[sent:])
        return True

    async def writable(self) -> None:
        """Wait while the socket is full."""
        if self._gate is not None and not self._gate.is_set():
            await self._gate.wait()

    def drop(self) -> None:
        """Cut the connection, with whatever was not written yet."""
        if not self.finished and self.channel is not None:
            # HTTP/2 ends the one stream by this name; HTTP/1 has another for the whole connection.
            abort = getattr(self.channel, "abortConnection", None) or self.channel.forceAbortClient
            abort()

    def handle_exception(self, exception: BaseException) -> None:
        """Answer for an application that failed: with an error page, or, in mid-response, by cutting it off."""
        if self._response_started:
            self.drop()
        else:
            super().handle_exception(exception)

    def finish(self) -> None:
        """End the response."""
        self._let_go()
        self._set_idle_timeout(IDLE_S)  # before the end, since Twisted takes the channel away with it
        super().finish()

    def connectionLost(self, reason: Any) -> None:
        """Wake a sender that waits for a client which is gone."""
        self._disarm()
        self._let_go()
        super().connectionLost(reason)

    # What Twisted calls on a push producer:

    def pauseProducing(self) -> None:
        if self._gate is not None:
            self._gate.clear()

    def resumeProducing(self) -> None:
        if self._gate is not None:
            self._gate.set()

    def stopProducing(self) -> None:
        self.resumeProducing()  # nobody reads any more; the sender learns of it from `receive`

    def _let_go(self) -> None:
        if self._gate is not None:
            self._gate.set()
            self._gate = None
            if self.channel is not None:
                self.unregisterProducer()

    def _set_idle_timeout(self, seconds: float | None) -> None:
        """Hold an HTTP/2 connection open while it has streams: Twisted counts only what comes in as a sign of life."""
        connection = getattr(self.channel, "_conn", None)
        if connection is not None and (seconds is None or len(connection.streams) <= 1):
            connection.setTimeout(seconds)

    def _disarm(self) -> None:
        if self._deadline.active():
            self._deadline.cancel()

    def _too_slow(self) -> None:
        if isinstance(self.channel, HTTPChannel):
            self._refuse(Timeout(f"The request did not arrive within {UPLOAD_S:.0f} s."), status=408)
        else:
            self.drop()

    def _refuse(self, error: ApiError, *, status: int | None = None) -> None:
        """Answer before the request is here, and close; what still comes is thrown away."""
        if self._refused or self.channel is None:
            return
        self._refused = True
        self.requestHeaders.removeHeader(b"expect")  # nothing is to follow this answer
        request_id = new_id("req")
        body = json.dumps(error.body(request_id)).encode()
        if isinstance(self.channel, HTTPChannel):
            head = (
                f"HTTP/1.1 {status or error.status} Refused\r\ncontent-type: application/json\r\n"
                f"content-length: {len(body)}\r\nrequest-id: {request_id}\r\nconnection: close\r\n\r\n"
            )
            self.channel.write(head.encode() + body)
            self.channel.loseConnection()
            return
        # HTTP/2 has other streams on this connection: `process` sends it, when the body has gone by.
        self.setResponseCode(status or error.status)
        self.setHeader("content-type", "application/json")
        self.setHeader("request-id", request_id)
        self._refusal = body
