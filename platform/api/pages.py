"""Pages of the newest first: `{results, next}`."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from typing import Any

from django.core.exceptions import ValidationError
from drf_spectacular.utils import inline_serializer
from rest_framework import serializers
from rest_framework.exceptions import NotFound
from rest_framework.pagination import CursorPagination
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from api.parameters import Parameter, whole_number
from common.errors import InvalidRequest

CURSOR = Parameter("cursor", "Where to go on, as the `next` of a page says.", {"type": "string"})


def limit_parameter(usually: int, *, most: int) -> Parameter:
    """Return the parameter that `limit_of` reads."""
    return Parameter(
        "limit", "So many at most.", {"type": "integer", "minimum": 1, "maximum": most, "default": usually}
    )


def limit_of(query: Mapping[str, str], *, usually: int, most: int) -> int:
    """Return how many rows a page has."""
    return whole_number("limit", query["limit"], least=1, most=most) if "limit" in query else usually


class Pages(CursorPagination):
    """Pages that stay right while rows are added."""

    page_size = 50
    page_size_query_param = "limit"
    max_page_size = 1000
    ordering = ("-created_at", "-id")

    def get_page_size(self, request: Request) -> int:
        return limit_of(request.query_params, usually=self.page_size, most=self.max_page_size)

    def paginate_queryset(self, queryset: Any, request: Request, view: APIView | None = None) -> list[Any] | None:
        try:
            b64decode(request.query_params.get("cursor", ""), validate=True)
            return super().paginate_queryset(queryset, request, view)
        except (NotFound, ValidationError, ValueError, OverflowError):  # DRF skips what is not base64
            raise InvalidRequest("cursor: expected one from the `next` of a page.") from None

    def get_paginated_response(self, data: Any) -> Response:
        return Response({"results": data, "next": self.get_next_link()})


def page_of(row: type[serializers.BaseSerializer[Any]]) -> serializers.Serializer[Any]:
    """Return what describes a page of rows."""
    link = serializers.URLField(allow_null=True, help_text="The next page.")
    name = row.__name__.replace("Serializer", "Page")
    return inline_serializer(name, {"results": row(many=True), "next": link})


PAGE_PARAMETERS = (limit_parameter(Pages.page_size, most=Pages.max_page_size), CURSOR)
