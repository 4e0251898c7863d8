"""Django as an ASGI application."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from django.core.handlers.asgi import ASGIHandler, ASGIRequest
from django.core.signals import request_finished
from django.http import HttpResponseBase


class Handler(ASGIHandler):
    """Django's handler, whose refusal of what it cannot even read has our form, and which leaves no connections."""

    async def handle(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Handle a request; one that the server ends in the middle gives its database connection back, too."""
        try:
            await super().handle(scope, receive, send)
        except BaseException:
            await asyncio.shield(request_finished.asend(sender=type(self)))  # what Django does for all others
            raise

    def create_request(
        self, scope: Mapping[str, Any], body_file: Any
    ) -> tuple[ASGIRequest, None] | tuple[None, HttpResponseBase]:
        from api.errors import unreadable  # once Django is set up

        request, _ = super().create_request(scope, body_file)
        if request is None:
            return None, unreadable()
        return request, None
