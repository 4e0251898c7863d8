"""The paths that the gateway serves without Django."""

from __future__ import annotations

from django.urls import path
from django.urls.resolvers import URLPattern

from streaming import chat, health, messages, metrics, models, streams
from streaming.endpoint import Endpoint
from streaming.gateway import Gateway

BETA = frozenset({"beta"})  # Anthropic's clients say so under `client.beta`; nothing comes of it here
PAGE = frozenset({"limit", "after_id", "before_id"})
STREAM = frozenset({"token", "last_event_id"})
WISHES = frozenset({"x-sluice-on-disconnect"})


def routes(gateway: Gateway) -> list[URLPattern]:
    """Return the routes, for Channels' `URLRouter`."""
    posted = Endpoint(gateway, parameters=BETA, wishes=WISHES, generates=True, POST=messages.create_message)
    streamed = Endpoint(gateway, parameters=STREAM, GET=streams.read_stream, DELETE=streams.cancel_stream)
    table: list[tuple[str, Endpoint]] = [
        ("v1/messages", posted),
        ("v1/messages/count_tokens", Endpoint(gateway, parameters=BETA, POST=messages.count_tokens)),
        ("v1/chat/completions", Endpoint(gateway, wishes=WISHES, generates=True, POST=chat.create_completion)),
        ("v1/streams", Endpoint(gateway, generates=True, POST=streams.create_stream)),
        ("v1/streams/<str:message_id>", streamed),
        ("v1/streams/<str:message_id>/message", Endpoint(gateway, GET=streams.read_message)),
        ("v1/models", Endpoint(gateway, parameters=BETA | PAGE, GET=models.list_models)),
        ("v1/models/<path:name>", Endpoint(gateway, parameters=BETA, GET=models.show_model)),
        ("metrics", Endpoint(gateway, parameters=None, GET=metrics.show)),
        ("healthz", Endpoint(gateway, parameters=None, starts=False, GET=health.live)),
        ("readyz", Endpoint(gateway, parameters=None, GET=health.ready)),
    ]
    return [path(route, endpoint) for route, endpoint in table]  # type: ignore[arg-type]  # ASGI apps, not views
