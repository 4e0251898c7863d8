"""Pages of the newest first: `{results, next}`."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

from django.core.exceptions import ValidationError
from rest_framework.exceptions import NotFound
from rest_framework.pagination import CursorPagination
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from api.parameters import whole_number
from common.errors import InvalidRequest

PAGE_PARAMETERS = frozenset({"limit", "cursor"})


class Pages(CursorPagination):
    """Pages that stay right while rows are added."""

    page_size = 50
    page_size_query_param = "limit"
    max_page_size = 1000
    ordering = ("-created_at", "-id")

    def get_page_size(self, request: Request) -> int:
        limit = request.query_params.get("limit")
        return self.page_size if limit is None else whole_number("limit", limit, least=1, most=self.max_page_size)

    def paginate_queryset(self, queryset: Any, request: Request, view: APIView | None = None) -> list[Any] | None:
        try:
            b64decode(request.query_params.get("cursor", ""), validate=True)
            return super().paginate_queryset(queryset, request, view)
        except (NotFound, ValidationError, ValueError, OverflowError):  # DRF skips what is not base64
            raise InvalidRequest("cursor: expected one from the `next` of a page.") from None

    def get_paginated_response(self, data: Any) -> Response:
        return Response({"results": data, "next": self.get_next_link()})
