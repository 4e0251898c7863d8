"""GET /docs/."""

from __future__ import annotations

from functools import lru_cache

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from api.docs.reference import Reference
from api.openapi.document import document
from common.pages import self_contained


@require_safe
@self_contained()
def show_docs(request: HttpRequest) -> HttpResponse:
    """Show how to use the API, and all of it."""
    origin = request.build_absolute_uri("/").rstrip("/")
    page = render(
        request, "docs/index.html", {"reference": _reference(origin), "origin": origin, "set": settings.SLUICE}
    )
    page.headers["cache-control"] = "public, max-age=300"
    return page


@lru_cache(maxsize=8)
def _reference(origin: str) -> Reference:
    return Reference(document(), origin)
