"""A client's connection, whatever HTTP it speaks, and what is the same for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from daphne.http_protocol import HTTPFactory
from daphne.server import Server
from twisted.web.http import _GenericHTTPChannelProtocol
from twisted.web.http_headers import Headers

from common.errors import ApiError
from common.ids import new_id
from streaming.answers import Answer, error_answer
from streaming.cors import Cors
from streaming.http1 import Channel
from streaming.http2 import Http2
from streaming.request import Request


class Connection(_GenericHTTPChannelProtocol):  # type: ignore[misc]  # Twisted and Daphne have no types
    """One client's connection: HTTP/1.1, until TLS has found out that the client would rather have HTTP/2."""

    _channel: Any
    _negotiatedProtocol: bytes | None

    def makeConnection(self, transport: Any) -> None:
        self.factory.num_open += 1
        super().makeConnection(transport)

    def connectionLost(self, reason: Any) -> None:
        self.factory.num_open -= 1
        super().connectionLost(reason)

    def dataReceived(self, data: bytes) -> None:
        if self._negotiatedProtocol is None:
            transport = self._channel.transport
            self._negotiatedProtocol = getattr(transport, "negotiatedProtocol", None) or b"http/1.1"
            if self._negotiatedProtocol == b"h2":
                self._go_over_to(Http2())
        self._channel.dataReceived(data)

    def _go_over_to(self, channel: Http2) -> None:
        before, self._channel = self._channel, channel
        before.abandon()
        channel.requestFactory, channel.factory, channel.callLater = Request, before.factory, before.callLater
        channel.makeConnection(before.transport)
        before.transport.registerProducer(channel, True)


class Factory(HTTPFactory):  # type: ignore[misc]
    """Makes our kind of connections and requests, and knows their limits."""

    def __init__(
        self,
        server: Server,
        *,
        cors: Cors,
        max_body_bytes: int,
        larger_bodies: Mapping[bytes, int],
        receive_timeout_s: float,
    ) -> None:
        super().__init__(server)
        self.timeOut = None  # ours are stricter
        self.num_open = 0  # connections
        self._max_body_bytes, self._larger_bodies = max_body_bytes, larger_bodies
        self.receive_timeout_s = receive_timeout_s
        self._cors = cors

    def protocol(self) -> Connection:
        return Connection(Channel())

    def buildProtocol(self, addr: Any) -> Connection:
        protocol: Connection = super().buildProtocol(addr)
        protocol.requestFactory = Request
        return protocol

    def max_body_bytes(self, target: bytes) -> int:
        """Return how large a request's body may be; `target` is its URL as it came."""
        return self._larger_bodies.get(target.partition(b"?")[0], self._max_body_bytes)

    def log(self, request: Request) -> None:
        """Write no access log: it would have the tokens of stream URLs."""

    def refusal(self, error: ApiError, target: bytes, headers: Headers) -> Answer:
        """Return the answer to a request that no application sees; `target` is its URL as it came."""
        path = unquote(target.partition(b"?")[0].decode("latin-1"))
        pairs = [(name.lower(), value) for name, values in headers.getAllRawHeaders() for value in values]
        return error_answer(error, new_id("req"), scope={"path": path, "headers": pairs}, cors=self._cors)
