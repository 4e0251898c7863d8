"""The application of a gateway: streams go straight to it, the rest to Django, or nowhere."""

from __future__ import annotations

from typing import Any

from channels.routing import ProtocolTypeRouter, URLRouter
from django.urls import re_path

from streaming.elsewhere import elsewhere
from streaming.gateway import Gateway
from streaming.routes import routes


def build(gateway: Gateway, *, web: bool = True) -> Any:
    """Return the application around a gateway; Django is not even loaded where it is without the web."""
    if web:
        from config.pages import pages

        rest = pages(gateway.cors)
    else:
        nowhere = elsewhere("This gateway serves no pages.", "a web process: manage.py web", cors=gateway.cors)
        rest = [re_path(r"", nowhere)]  # type: ignore[arg-type]  # an ASGI app, as Channels takes it
    return ProtocolTypeRouter({"http": URLRouter([*routes(gateway), *rest])})
