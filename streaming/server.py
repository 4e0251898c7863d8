"""Daphne's server with what streams need of it: a shared port, flow control, and a stop that drains."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable
from typing import Any

from daphne.http_protocol import HTTPFactory, WebRequest
from daphne.server import Server as DaphneServer
from twisted.internet import defer, reactor

logger = logging.getLogger(__name__)

# Unwritten bytes that the kernel takes for a client: few, so that a slow one is noticed.
SEND_BUFFER = 64 * 1024


def listening_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens on host and port, shared with other gateways by SO_REUSEPORT."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)  # accepted sockets inherit it
    sock.setblocking(False)
    sock.bind((host, port))
    sock.listen(1024)
    return sock


class Request(WebRequest):  # type: ignore[misc]  # Twisted and Daphne have no types
    """A request whose sender can wait until the socket takes more, and whose connection can be dropped."""

    _gate: asyncio.Event | None = None

    def handle_reply(self, message: dict[str, Any]) -> None:
        """Take a reply from the application; from the first on, the transport tells when it is full."""
        if message["type"] == "http.response.start" and not self.finished and self.channel is not None:
            self._gate = asyncio.Event()
            self._gate.set()
            self.registerProducer(self, True)
        super().handle_reply(message)

    async def writable(self) -> None:
        """Wait while the socket is full."""
        if self._gate is not None and not self._gate.is_set():
            await self._gate.wait()

    def drop(self) -> None:
        """Cut the connection, with whatever was not written yet."""
        if not self.finished and self.channel is not None:
            self.channel.abortConnection()

    # What Twisted calls on a push producer:

    def pauseProducing(self) -> None:
        assert self._gate is not None
        self._gate.clear()

    def resumeProducing(self) -> None:
        assert self._gate is not None
        self._gate.set()

    def stopProducing(self) -> None:
        self.resumeProducing()  # nobody reads any more; the sender learns of it from `receive`

    def finish(self) -> None:
        """End the response."""
        self._let_go()
        super().finish()

    def connectionLost(self, reason: Any) -> None:
        """Wake a sender that waits for a client which is gone."""
        self._let_go()
        super().connectionLost(reason)

    def _let_go(self) -> None:
        if self._gate is not None:
            self._gate.set()
            self._gate = None
            if self.channel is not None:
                self.unregisterProducer()


class Factory(HTTPFactory):  # type: ignore[misc]
    """Makes our kind of request."""

    def buildProtocol(self, addr: Any) -> Any:
        protocol = super().buildProtocol(addr)
        protocol.requestFactory = Request
        return protocol


class Server(DaphneServer):  # type: ignore[misc]
    """Daphne on a socket of ours. SIGTERM runs `drain` while connections are served on, then ends what is left."""

    def __init__(self, application: Any, sock: socket.socket, *, drain: Callable[[], Awaitable[None]]) -> None:
        # Daphne insists on an endpoint; ours is adopted once the reactor runs.
        super().__init__(application, endpoints=["adopted"], server_name="sluice", verbosity=0)
        self.endpoints: list[str] = []
        self._socket, self._drain = sock, drain
        reactor.callWhenRunning(self._adopt)

    def create_application(self, protocol: Any, scope: dict[str, Any]) -> Any:
        """Start the application; its scope has a way to drop the connection."""
        if isinstance(protocol, Request):
            scope["extensions"] = {"sluice.drop": protocol.drop}
        return super().create_application(protocol, scope)

    async def handle_reply(self, protocol: Any, message: dict[str, Any]) -> None:
        """Write a reply, then wait while the client's socket is full."""
        await super().handle_reply(protocol, message)
        if isinstance(protocol, Request):
            await protocol.writable()

    def kill_all_applications(self) -> Any:
        """Drain, then end what is left. Daphne calls this before it shuts down."""
        loop = reactor._asyncioEventloop
        return defer.Deferred.fromFuture(loop.create_task(self._wind_down()))

    async def _wind_down(self) -> None:
        await self._drain()
        left = [task for task in self._applications() if not task.done()]
        for task in left:
            task.cancel()
        if left:
            logger.info("ended %d connections", len(left))
            await asyncio.wait(left, timeout=2)

    def _applications(self) -> list[asyncio.Task[None]]:
        found = (details.get("application_instance") for details in self.connections.values())
        return [task for task in found if task is not None]

    def _adopt(self) -> None:
        self.http_factory = Factory(self)
        port = reactor.adoptStreamPort(self._socket.fileno(), self._socket.family, self.http_factory)
        self._socket.close()  # the reactor has a duplicate
        self.listen_success(port)
