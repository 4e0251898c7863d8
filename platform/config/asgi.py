"""The ASGI application: streams go straight to the gateway, the rest to Django."""

from __future__ import annotations

import os
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

from config.handler import get_application

django_application = get_application()  # before our imports, since it sets Django up

from channels.routing import ProtocolTypeRouter, URLRouter
from django.conf import settings
from django.urls import path, re_path

from console.live.feed import Feed
from streaming.gateway import Gateway
from streaming.routes import routes


def build(gateway: Gateway) -> Any:
    """Return the application around a gateway."""
    rest = re_path(r"", gateway.cors.around(django_application))  # type: ignore[arg-type]  # an ASGI app, as Channels takes it
    watching = path("admin/console/streams/live", Feed(settings.SLUICE.redis))  # type: ignore[arg-type]  # likewise
    return ProtocolTypeRouter({"http": URLRouter([*routes(gateway), watching, rest])})


gateway = Gateway(settings.SLUICE)
application = build(gateway)
