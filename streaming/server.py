"""Daphne's server, with sockets that several gateways can share."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from typing import Any

from daphne.server import Server as DaphneServer
from twisted.internet import defer, reactor

# Unwritten bytes the kernel takes for a client: small, so that a slow one is noticed.
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


class Server(DaphneServer):
    """Daphne on a socket of ours; `on_stop` runs before the process ends."""

    def __init__(self, application: Any, sock: socket.socket, *, on_stop: Callable[[], Awaitable[None]]) -> None:
        # Daphne asks for an endpoint; the socket is adopted once the reactor runs.
        super().__init__(application, endpoints=["adopted"], server_name="sluice", verbosity=0)
        self.endpoints = []
        self._socket, self._on_stop = sock, on_stop
        reactor.callWhenRunning(self._adopt)
        reactor.addSystemEventTrigger("during", "shutdown", self._stopped)

    def _adopt(self) -> None:
        port = reactor.adoptStreamPort(self._socket.fileno(), self._socket.family, self.http_factory)
        self._socket.close()  # the reactor has a duplicate
        self.listen_success(port)

    def _stopped(self) -> Any:
        return defer.Deferred.fromCoroutine(self._run_on_stop())

    async def _run_on_stop(self) -> None:
        loop = reactor._asyncioEventloop
        await defer.Deferred.fromFuture(loop.create_task(self._on_stop()))
