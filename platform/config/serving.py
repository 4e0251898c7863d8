"""What the commands that serve HTTP have in common: where they listen, and what has to be right before."""

from __future__ import annotations

import socket
from argparse import ArgumentParser
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from OpenSSL import crypto

from common.redis_check import check_redis
from config import open_files
from streaming.cors import Cors
from streaming.server import Server, listening_socket, tls_options


@dataclass(frozen=True, slots=True)
class Listening:
    """A socket that clients can connect to, and what TLS they find there."""

    sock: socket.socket
    tls: Any | None


class ServingCommand(BaseCommand):
    """A command that serves HTTP with Daphne until SIGTERM."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", default="127.0.0.1", help="address to listen on (127.0.0.1)")
        parser.add_argument("--port", type=int, default=8000, help="port to listen on (8000)")
        parser.add_argument(
            "--tls-cert", type=Path, metavar="PEM", help="certificate (and chain): serve HTTPS and HTTP/2"
        )
        parser.add_argument("--tls-key", type=Path, metavar="PEM", help="the certificate's key")

    def listen(self, options: Mapping[str, Any]) -> Listening:
        """Look at Redis, then listen; raise `CommandError`."""
        doubt = check_redis(settings.SLUICE.redis)
        if doubt:
            self.stderr.write(f"Warning: {doubt}")
        tls = None
        if options["tls_cert"] or options["tls_key"]:
            try:
                tls = tls_options(*_both(options["tls_cert"], options["tls_key"]))
            except (OSError, ValueError, crypto.Error) as error:
                raise CommandError(f"--tls-cert, --tls-key: {error}") from None
        try:
            sock = listening_socket(options["host"], options["port"])
        except OSError as error:
            raise CommandError(f"Cannot listen on {options['host']}:{options['port']}: {error}") from None
        open_files.allow_many()
        return Listening(sock, tls)


def server_of(
    application: Any,
    listening: Listening,
    *,
    cors: Cors,
    start: Callable[[], Coroutine[Any, Any, object]] | None = None,
    drain: Callable[[], Awaitable[None]],
    close: Callable[[float], Awaitable[None]],
) -> Server:
    """Return the server of an application, with the limits that the settings name."""
    return Server(
        application,
        listening.sock,
        cors=cors,
        max_body_bytes=settings.SLUICE.max_body_mb * 1_000_000,
        larger_bodies={b"/v1/messages/batches": settings.SLUICE.batch_max_body_mb * 1_000_000},
        receive_timeout_s=settings.SLUICE.receive_timeout_s,
        tls=listening.tls,
        budget_s=settings.SLUICE.drain_s,
        start=start,
        drain=drain,
        close=close,
    )


def _both(certificate: Path | None, key: Path | None) -> tuple[Path, Path]:
    if not certificate or not key:
        raise ValueError("one needs the other")
    return certificate, key
