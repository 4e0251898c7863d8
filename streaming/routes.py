"""The paths that the gateway serves without Django."""

from __future__ import annotations

from django.urls import path
from django.urls.resolvers import URLPattern

from streaming import chat, health, messages, models, streams
from streaming.endpoint import Endpoint
from streaming.gateway import Gateway
from streaming.surfaces import openai


def routes(gateway: Gateway) -> list[URLPattern]:
    """Return the routes, for Channels' `URLRouter`."""
    table: list[tuple[str, Endpoint]] = [
        ("v1/messages", Endpoint(gateway, POST=messages.create_message)),
        ("v1/messages/count_tokens", Endpoint(gateway, POST=messages.count_tokens)),
        ("v1/chat/completions", Endpoint(gateway, error_body=openai.error_body, POST=chat.create_completion)),
        ("v1/streams", Endpoint(gateway, POST=streams.create_stream)),
        ("v1/streams/<str:message_id>", Endpoint(gateway, GET=streams.read_stream, DELETE=streams.cancel_stream)),
        ("v1/streams/<str:message_id>/message", Endpoint(gateway, GET=streams.read_message)),
        ("v1/models", Endpoint(gateway, GET=models.list_models)),
        ("v1/models/<path:name>", Endpoint(gateway, GET=models.show_model)),
        ("healthz", Endpoint(gateway, starts=False, GET=health.live)),
        ("readyz", Endpoint(gateway, GET=health.ready)),
    ]
    return [path(route, endpoint) for route, endpoint in table]  # type: ignore[arg-type]  # ASGI apps, not views
