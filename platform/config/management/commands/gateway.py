"""`manage.py gateway`: one gateway process."""

from __future__ import annotations

import sys
import threading
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.checks import Tags, registry

from config.routing import build
from config.serving import ServingCommand, server_of
from inference.protocol.drains import EXIT_STATUS
from safety.publishing import publish_at_start
from streaming.gateway import Gateway

# The streams' event loop gives the interpreter up at each write, and waits this long to get it back while a Django view
# computes in its thread. With Python's own 5 ms, one admin page held up a hundred streams for a tenth of a second.
SWITCH_S = 0.0005
OF_THE_WEB = {Tags.admin, Tags.templates, Tags.urls}


class Command(ServingCommand):
    """Serve streams, and the web unless that has processes of its own."""

    help = "Serve HTTP. Several gateways may share a port."

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--no-web", action="store_true", help="only streams: `manage.py web` serves the rest, behind a proxy"
        )

    def get_check_kwargs(self, options: dict[str, Any]) -> dict[str | None, Any]:
        """Leave the web unchecked where it is not served: to check it is to load it."""
        checked = super().get_check_kwargs(options)
        if options["no_web"]:
            checked["tags"] = sorted(registry.registry.tags_available() - OF_THE_WEB)
        return checked

    def handle(self, *args: Any, **options: Any) -> None:
        listening = self.listen(options)
        gateway = Gateway(settings.SLUICE)
        application = build(gateway, web=not options["no_web"])
        threading.Thread(target=publish_at_start, name="policies", daemon=True).start()
        sys.setswitchinterval(SWITCH_S)
        server = server_of(
            application,
            listening,
            cors=gateway.cors,
            start=gateway.started,
            drain=gateway.drain.run,
            close=gateway.close,
        )
        gateway.num_connections = lambda: server.num_connections
        server.run()
        if gateway.asked_to_drain:
            sys.exit(EXIT_STATUS)
