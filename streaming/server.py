"""Daphne's server with what streams need of it: a shared port, flow control, and a stop that drains."""

from __future__ import annotations

import asyncio
import logging
import re
import socket
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

from daphne.server import Server as DaphneServer
from twisted.internet import defer, reactor
from twisted.internet.ssl import Certificate, CertificateOptions, PrivateCertificate
from twisted.logger import globalLogPublisher
from twisted.protocols.tls import TLSMemoryBIOFactory

from streaming.connection import Factory
from streaming.cors import Cors
from streaming.request import Request

logger = logging.getLogger(__name__)

# Unwritten bytes that the kernel takes for a client: few, so that a slow one is noticed.
SEND_BUFFER = 64 * 1024
LEAST_S = 0.1  # for a last word to be written, even if there is no time left


def listening_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens on host and port, shared with other gateways by SO_REUSEPORT."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)  # accepted sockets inherit it
    sock.setblocking(False)
    try:
        sock.bind((host, port))
        sock.listen(1024)
    except BaseException:
        sock.close()
        raise
    return sock


def tls_options(certificate: Path, key: Path) -> CertificateOptions:
    """Return what serves HTTPS, HTTP/2 included, with a certificate chain and its key in PEM files."""
    pem = PrivateCertificate.loadPEM(key.read_bytes() + certificate.read_bytes())
    chain = [Certificate.loadPEM(block).original for block in certificates_in(certificate.read_text())[1:]]
    return CertificateOptions(privateKey=pem.privateKey.original, certificate=pem.original, extraCertChain=chain)


def certificates_in(text: str) -> list[str]:
    """Return the certificates of a PEM file, the server's own first."""
    return re.findall(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", text, re.DOTALL)


def tell_of_failure(event: dict[str, Any]) -> None:
    """Log what failed inside Twisted: Daphne throws Twisted's log away."""
    if failure := event.get("log_failure"):
        logger.error("a connection failed", exc_info=(failure.type, failure.value, failure.getTracebackObject()))


class Server(DaphneServer):  # type: ignore[misc]  # Twisted and Daphne have no types
    """Daphne on a socket of ours.

    `larger_bodies` are paths to which more than `max_body_bytes` may be sent, and how many. On SIGTERM it runs `drain`
    while it serves on, ends what is left, then `close`, which is told how many seconds it may take: all of that within
    `budget_s`. `start` runs before the first connection is made.
    """

    def __init__(
        self,
        application: Any,
        sock: socket.socket,
        *,
        cors: Cors,
        max_body_bytes: int,
        larger_bodies: Mapping[bytes, int],
        receive_timeout_s: float,
        tls: CertificateOptions | None = None,
        budget_s: float,
        start: Callable[[], Coroutine[Any, Any, object]] | None = None,
        drain: Callable[[], Awaitable[None]],
        close: Callable[[float], Awaitable[None]],
    ) -> None:
        # Daphne insists on an endpoint; ours is adopted once the reactor runs.
        super().__init__(application, endpoints=["adopted"], server_name="sluice", verbosity=0)
        self.endpoints: list[str] = []
        self._factory = Factory(
            self,
            cors=cors,
            max_body_bytes=max_body_bytes,
            larger_bodies=larger_bodies,
            receive_timeout_s=receive_timeout_s,
        )
        self._socket, self._tls = sock, tls
        self._budget_s, self._start, self._drain, self._close = budget_s, start, drain, close
        self._stopping = asyncio.Event()
        globalLogPublisher.addObserver(tell_of_failure)
        reactor.callWhenRunning(self._adopt)

    @property
    def num_connections(self) -> int:
        """How many clients are connected now."""
        return self._factory.num_open

    def protocol_disconnected(self, protocol: Any) -> None:
        """Note that a request is over; HTTP/2 may say so again when Daphne has forgotten it."""
        if protocol in self.connections:
            super().protocol_disconnected(protocol)

    def create_application(self, protocol: Any, scope: dict[str, Any]) -> Any:
        """Start the application; its scope has ways to drop the connection, to write at once, to learn of a stop."""
        if isinstance(protocol, Request):
            scope["extensions"] = {
                "sluice.drop": protocol.drop,
                "sluice.write": protocol.write_now,
                "sluice.stopping": self._stopping,
            }
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
        end = time.monotonic() + self._budget_s
        self._stopping.set()

        def share() -> float:  # each step has half of what is left, so that there is something for the next
            return max(LEAST_S, (end - time.monotonic()) / 2)

        await self._drain()
        running = self._applications()
        if running:  # short requests, Django's among them, that came with the signal
            await asyncio.wait(running, timeout=share())
        left = [task for task in running if not task.done()]
        for task in left:
            task.cancel()
        if left:
            logger.info("ended %d connections", len(left))
            await asyncio.wait(left, timeout=share())
        await self._close(share())  # last, so that what was just ended can still say so

    def _applications(self) -> list[asyncio.Task[None]]:
        found = (details.get("application_instance") for details in self.connections.values())
        return [task for task in found if task is not None]

    def _adopt(self) -> None:
        if self._start is not None:
            self._starting = reactor._asyncioEventloop.create_task(self._start())  # kept: a loop holds tasks weakly
        self.http_factory = self._factory
        factory = TLSMemoryBIOFactory(self._tls, False, self.http_factory) if self._tls else self.http_factory
        port = reactor.adoptStreamPort(self._socket.fileno(), self._socket.family, factory)
        self._socket.close()  # the reactor has a duplicate
        self.listen_success(port)
