"""The application of a gateway: streams go straight to it, the rest to Django, or nowhere."""

from __future__ import annotations

from typing import Any

from channels.routing import ProtocolTypeRouter, URLRouter
from django.urls import re_path

from streaming.elsewhere import elsewhere
from streaming.gateway import Gateway
from streaming.paths import OF_GATEWAYS
from streaming.routes import routes


def build(gateway: Gateway, *, web: bool = True) -> Any:
    """Return the application around a gateway; where it is without the web, that is not even loaded."""
    if web:
        from config.pages import pages

        rest = pages(gateway.cors)
    else:
        unknown = elsewhere("No such path: {request}", cors=gateway.cors)
        theirs = elsewhere(
            "This gateway serves no pages. {request} is for a web process: manage.py web.", cors=gateway.cors
        )
        others = ((OF_GATEWAYS, unknown), ("", theirs))
        rest = [re_path(f"^{route}", app) for route, app in others]  # type: ignore[arg-type]  # ASGI apps, not views
    return ProtocolTypeRouter({"http": URLRouter([*routes(gateway), *rest])})
