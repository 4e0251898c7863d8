"""Asks the gateways whether they are ready, and the machine whether a port is free."""

from __future__ import annotations

import asyncio
import socket
from http.client import HTTPException, HTTPResponse
from io import BytesIO


class _Bytes:
    """What `HTTPResponse` takes for a socket."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, mode: str) -> BytesIO:
        return BytesIO(self._data)


def complain_of_port(host: str, port: int) -> str | None:
    """Return why nobody can listen there, None when one can."""
    try:
        family, kind, proto, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, proto) as probe:
            # Without SO_REUSEPORT, which lets strangers share a port; with this, old connections are no reason.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            probe.listen()
    except OSError as error:
        return error.strerror or str(error)
    return None


def reachable(host: str) -> str:
    """Return the address under which a server that listens on `host` is reached from this machine."""
    return {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}.get(host, host)


def url_of(host: str, port: int) -> str:
    """Return the URL of a server that listens on `host` and `port`."""
    name = reachable(host)
    return f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"


async def ask(host: str, port: int, path: str, *, timeout: float = 5.0) -> tuple[int, str]:
    """GET a path; return status and body, or status 0 when nobody answers."""
    try:
        async with asyncio.timeout(timeout):
            reader, writer = await asyncio.open_connection(reachable(host), port)
            try:
                writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
                answer = await reader.read()
            finally:
                writer.close()
        response = HTTPResponse(_Bytes(answer))  # type: ignore[arg-type]  # it only ever asks for makefile()
        response.begin()
        return response.status, response.read().decode(errors="replace").strip()
    except (OSError, TimeoutError, HTTPException):
        return 0, ""
