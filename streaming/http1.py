"""An HTTP/1.1 connection of our server: each request has its time to arrive in, and hears why it was refused."""

from __future__ import annotations

from typing import Any

from twisted.protocols.tls import TLSMemoryBIOProtocol
from twisted.web.http import HTTPChannel
from twisted.web.http_headers import Headers

from common.errors import ApiError, HeadersTooLarge, InvalidRequest, TooSlow, UrlTooLong
from streaming import deadline


class Channel(HTTPChannel):  # type: ignore[misc]  # Twisted has no types
    """Twisted's, with deadlines instead of its timeout, which begins again with every byte that comes."""

    def __init__(self) -> None:
        super().__init__()
        self._deadline = deadline.Deadline()
        self._quiet = True  # nothing of the next request has come yet
        self._refused = False
        self._thrown_away = 0

    def connectionMade(self) -> None:
        super().connectionMade()
        self._deadline.set(self.factory.receive_timeout_s, self._late)

    def dataReceived(self, data: bytes) -> None:
        """Take what comes; after a refusal, throw it away."""
        if self._refused:
            self._thrown_away += len(data)
            if self._thrown_away > deadline.LINGER_BYTES:
                self.transport.abortConnection()
            return
        if self._quiet:
            self._quiet = False
            self._deadline.set(self.factory.receive_timeout_s, self._late)
        super().dataReceived(data)

    def allContentReceived(self) -> None:
        """Hand the request over: it is here."""
        if not self._refused:
            self._deadline.clear()
            super().allContentReceived()

    def requestDone(self, request: Any) -> None:
        """Go on to the next request, which may be here already."""
        self._quiet = True
        self._deadline.set(deadline.IDLE_S, self._late)
        super().requestDone(request)

    def pauseProducing(self) -> None:
        """Have the sender wait, and the client's progress watched."""
        super().pauseProducing()
        if self._handlingRequest:
            self._watch(deadline.STALLED_S)

    def resumeProducing(self) -> None:
        """Have the sender go on."""
        super().resumeProducing()
        if self._handlingRequest:
            self._deadline.clear()

    def loseConnection(self) -> None:
        """Close when everything is written, or when the client takes none of it any more."""
        self._watch(deadline.CLOSING_S)
        super().loseConnection()

    def connectionLost(self, reason: Any) -> None:
        self._deadline.clear()
        super().connectionLost(reason)

    def refuse(self, error: ApiError) -> None:
        """Answer a request that is not here yet, and close, but only when the client has ceased to send.

        To close while something is unread is to reset the connection, and that may destroy the answer before the
        client has read it.
        """
        if self._refused:
            return
        self._refused = True
        headers = self.requests[-1].requestHeaders if self.requests else Headers()
        self.transport.write(self.factory.refusal(error, getattr(self, "_path", b""), headers).http1())
        self.clearLineBuffer()
        self.lineReceived = self.rawDataReceived = lambda _: None  # our caller may have more of them
        self._networkProducer.unregisterProducer()
        self._networkProducer.resumeProducing()
        if isinstance(self.transport, TLSMemoryBIOProtocol):
            self.transport.loseConnection()  # says goodbye, and reads on until the client does
        else:
            self.transport.loseWriteConnection()
        self._deadline.set(deadline.LINGER_S, self.transport.abortConnection)

    def abandon(self) -> None:
        """Leave the connection to another protocol."""
        self._deadline.clear()
        self._networkProducer.unregisterProducer()

    def lineLengthExceeded(self, line: bytes) -> None:
        """Refuse a line that Twisted dropped for its length."""
        if hasattr(self, "_path"):
            self.refuse(HeadersTooLarge(f"A header is longer than {self.MAX_LENGTH} bytes."))
        else:
            self.refuse(UrlTooLong(f"The URL is longer than {self.MAX_LENGTH} bytes."))

    def _respondToBadRequestAndDisconnect(self) -> None:
        """Refuse what Twisted cannot read."""
        if self._receivedHeaderSize > self.totalHeadersSize:
            self.refuse(HeadersTooLarge(f"The headers are longer than {self.totalHeadersSize} bytes."))
        elif self._receivedHeaderCount > self.maxHeaders:
            self.refuse(HeadersTooLarge(f"There are more than {self.maxHeaders} headers."))
        else:
            self.refuse(InvalidRequest("The request is not valid HTTP/1.1."))

    def _late(self) -> None:
        if self._quiet:
            self.loseConnection()
        else:
            seconds = self.factory.receive_timeout_s
            self.refuse(TooSlow(f"The request did not arrive within {seconds:g} s."))

    def _watch(self, seconds: float) -> None:
        """Cut the connection off when nothing of what is written goes out in that time."""
        before = unsent(self.transport)

        def look() -> None:
            if 0 < unsent(self.transport) < before:
                self._watch(seconds)
            else:
                self.transport.abortConnection()

        self._deadline.set(seconds, look)


def unsent(transport: Any) -> int:
    """Return how many bytes wait in our process for the socket."""
    tcp = getattr(transport, "transport", transport)  # below TLS
    return len(tcp.dataBuffer) - int(tcp.offset) + int(tcp._tempDataLen)
