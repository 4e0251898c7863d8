"""`manage.py web`: one web process, beside gateways that serve streams alone."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import OperationalError, connections

from common.database import bring_database
from config.serving import ServingCommand, server_of
from config.web import Web


class Command(ServingCommand):
    """Serve all but streams."""

    help = "Serve the admin, the console, the docs and the rest of the API, beside `gateway --no-web`."

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            bring_database()
        except OperationalError:
            self.stderr.write("Warning: the database does not answer. See yourself that it is migrated.")
        finally:
            connections.close_all()
        listening = self.listen(options)
        web = Web(settings.SLUICE)
        server = server_of(
            web.application(), listening, cors=web.cors, start=web.start, drain=web.drain.run, close=web.close
        )
        server.run()
