"""GET /demo/."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from common.pages import self_contained

SILENT_HEARTBEATS = 2.5  # after so many without a word a connection counts as lost
LEAST_SILENCE_S = 10.0


@require_safe
@self_contained(connect=True)
def show_demo(request: HttpRequest) -> HttpResponse:
    """Show the chat. All it does, it does with the key that its user brings, over the public API."""
    silence_s = max(LEAST_SILENCE_S, SILENT_HEARTBEATS * settings.SLUICE.heartbeat_s)
    origin = request.build_absolute_uri("/").rstrip("/")
    page = render(request, "demo/index.html", {"origin": origin, "silence_ms": round(silence_s * 1000)})
    page.headers["cache-control"] = "no-cache"  # it names files by their hash, and those change with each version
    return page
