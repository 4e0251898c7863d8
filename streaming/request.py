"""One HTTP request in our server: flow control, limits on what a client may send, and a way to cut it off."""

from __future__ import annotations

import asyncio
from typing import Any

from daphne.http_protocol import WebRequest
from twisted.internet.tcp import Server as TcpServer

from common.errors import ApiError, InvalidRequest, RequestTooLarge
from streaming.http1 import Channel

# Headers that Daphne acts on, and no client may: with the first it would choose which part of a path is looked at (and
# slip past a proxy that keeps /metrics or /admin to itself), with the other leave our limits, for a WebSocket that
# nothing here serves.
FOR_DAPHNE = (b"daphne-root-path", b"upgrade")


class Request(WebRequest):  # type: ignore[misc]  # Twisted and Daphne have no types
    """Daphne's request, whose sender can wait for the socket, and whose body is refused while it comes."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        self.refusal: ApiError | None = None
        self._gate: asyncio.Event | None = None
        self._received = 0
        # Django parses forms for itself; Twisted would do it here, before anybody has shown a key.
        super().__init__(*arguments, parsePOSTFormSubmission=False, **more)

    def __repr__(self) -> str:
        """Leave the query out: it may hold a token, and Daphne logs this."""
        path = getattr(self, "path", b"").decode("latin-1")
        return f"<{type(self).__name__} {getattr(self, 'method', b'').decode('latin-1')} {path}>"

    # What comes in:

    def gotLength(self, length: int | None) -> None:
        """Look at the announced length of the body."""
        self._check_length(length or 0)
        super().gotLength(0 if self.refusal else length)  # which says how to keep the body

    def handleContentChunk(self, data: bytes) -> None:
        """Take a piece of the body, unless it becomes too long."""
        if not self.refusal:
            self._received += len(data)
            self._check_length(self._received)
        if not self.refusal:
            super().handleContentChunk(data)

    def process(self) -> Any:
        """Begin to answer: the request is here."""
        for name in FOR_DAPHNE:
            self.requestHeaders.removeHeader(name)
        return None if self.refusal else super().process()

    def refuse(self, error: ApiError) -> None:
        """Have this request answered before it is here."""
        self.refusal = error
        self.requestHeaders.removeHeader(b"expect")  # nothing is to follow the answer
        if isinstance(self.channel, Channel):  # HTTP/2 does it when it has all headers
            self.channel.refuse(error)

    def _check_length(self, length: int) -> None:
        channel = self.channel  # HTTP/1 knows by another name than HTTP/2 what was asked for
        limit = channel.factory.max_body_bytes(channel._path if isinstance(channel, Channel) else channel.path)
        if length > limit:
            self.refuse(RequestTooLarge(f"The body is larger than the {limit} bytes allowed."))

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
        waits to be written before it, the bytes may as well go at once. See tests/streaming/test_server.py: the
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

    def answer(self, error: ApiError, target: bytes) -> None:
        """Send an answer of the server's own to a request for `target`, the URL as it came."""
        if self.finished or self.channel is None:
            return
        answer = self.channel.factory.refusal(error, target, self.requestHeaders)
        self.setResponseCode(answer.status)
        for name, value in answer.headers:
            self.responseHeaders.addRawHeader(name, value)
        self.write(answer.body)
        self.finish()

    def basic_error(self, status: int, status_text: bytes, body: str) -> None:
        """Answer what Daphne refuses to pass on, or what failed inside."""
        failed = ApiError("The server failed to answer this request. It has been logged.")
        self.answer(InvalidRequest(f"{body}.") if status == 400 else failed, self.uri)

    def handle_exception(self, exception: BaseException) -> None:
        """Answer for an application that failed: with an error, or, in mid-response, by cutting it off."""
        if self._response_started:
            self.drop()
        else:
            super().handle_exception(exception)

    def finish(self) -> None:
        """End the response."""
        self._let_go()
        super().finish()

    def connectionLost(self, reason: Any) -> None:
        """Wake a sender that waits for a client which is gone."""
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
