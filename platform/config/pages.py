"""What people look at, and the rest of the API: Django, and the console's live feed beside it."""

from __future__ import annotations

from django.conf import settings
from django.urls import path, re_path
from django.urls.resolvers import URLPattern

from config.handler import Handler
from console.live.feed import Feed
from streaming.cors import Cors


def pages(cors: Cors) -> list[URLPattern]:
    """Return the routes, for Channels' `URLRouter`; the last takes whatever is left."""
    watching = path("admin/console/streams/live", Feed(settings.SLUICE.redis))  # type: ignore[arg-type]  # an ASGI app, as Channels takes it
    return [watching, re_path(r"", cors.around(Handler()))]  # type: ignore[arg-type]  # likewise
