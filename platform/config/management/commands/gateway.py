"""`manage.py gateway`: one gateway process."""

from __future__ import annotations

import sys
import threading
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from OpenSSL import crypto

from common.redis_check import check_redis
from config import open_files
from inference.protocol.drains import EXIT_STATUS
from safety.publishing import publish_at_start

# The streams' event loop gives the interpreter up at each write, and waits this long to get it back while a Django view
# computes in its thread. With Python's own 5 ms, one admin page held up a hundred streams for a tenth of a second.
SWITCH_S = 0.0005


class Command(BaseCommand):
    """Serve HTTP with Daphne."""

    help = "Serve HTTP. Several gateways may share a port."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", default="127.0.0.1", help="address to listen on (127.0.0.1)")
        parser.add_argument("--port", type=int, default=8000, help="port to listen on (8000)")
        parser.add_argument(
            "--tls-cert", type=Path, metavar="PEM", help="certificate (and chain): serve HTTPS and HTTP/2"
        )
        parser.add_argument("--tls-key", type=Path, metavar="PEM", help="the certificate's key")

    def handle(self, *args: Any, **options: Any) -> None:
        doubt = check_redis(settings.SLUICE.redis)
        if doubt:
            self.stderr.write(f"Warning: {doubt}")
        # Imported here: daphne.server installs Twisted's reactor.
        from streaming.server import Server, listening_socket, tls_options

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
        from config.asgi import application, gateway

        open_files.allow_many()
        threading.Thread(target=publish_at_start, name="policies", daemon=True).start()
        sys.setswitchinterval(SWITCH_S)
        server = Server(
            application,
            sock,
            cors=gateway.cors,
            max_body_bytes=settings.SLUICE.max_body_mb * 1_000_000,
            larger_bodies={b"/v1/messages/batches": settings.SLUICE.batch_max_body_mb * 1_000_000},
            receive_timeout_s=settings.SLUICE.receive_timeout_s,
            tls=tls,
            budget_s=settings.SLUICE.drain_s,
            start=gateway.started,
            drain=gateway.drain.run,
            close=gateway.close,
        )
        gateway.num_connections = lambda: server.num_connections
        server.run()
        if gateway.asked_to_drain:
            sys.exit(EXIT_STATUS)


def _both(certificate: Path | None, key: Path | None) -> tuple[Path, Path]:
    if not certificate or not key:
        raise ValueError("one needs the other")
    return certificate, key
