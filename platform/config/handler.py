"""Django as an ASGI application."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import django
from django.core.handlers.asgi import ASGIHandler, ASGIRequest
from django.http import HttpResponseBase


class Handler(ASGIHandler):
    """Django's handler, whose refusal of what it cannot even read has our form."""

    def create_request(
        self, scope: Mapping[str, Any], body_file: Any
    ) -> tuple[ASGIRequest, None] | tuple[None, HttpResponseBase]:
        from api.errors import unreadable  # once Django is set up

        request, _ = super().create_request(scope, body_file)
        if request is None:
            return None, unreadable()
        return request, None


def get_application() -> Handler:
    """Set Django up and return its application."""
    django.setup(set_prefix=False)
    return Handler()
