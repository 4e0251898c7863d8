"""GET /v1/requests and /v1/requests/{id}: the records of the caller's organisation."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from rest_framework import generics, serializers
from rest_framework.exceptions import NotFound
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.pagination import CursorPagination
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from api.authentication import caller_of
from api.parameters import refuse_unknown, whole_number
from api.permissions import MaySeeUsage
from common.errors import InvalidRequest
from records.models import RequestRecord


class RequestSerializer(serializers.ModelSerializer[RequestRecord]):
    """A record as its owner sees it."""

    tpot_ms = serializers.FloatField(read_only=True)

    class Meta:
        model = RequestRecord
        fields = (
            "id", "model", "created_at", "finished_at", "outcome", "input_tokens", "output_tokens", "attempts",
            "queue_ms", "prefill_ms", "ttft_ms", "tpot_ms", "tbt_p99_ms", "total_ms", "streamed", "stages",
        )  # fmt: skip


class RequestPages(CursorPagination):
    """Pages of the newest first: `{results, next}`."""

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


class OwnRequests(generics.GenericAPIView[RequestRecord]):
    """The settled records of the caller's organisation, and no others."""

    permission_classes = (MaySeeUsage,)
    serializer_class = RequestSerializer
    pagination_class = RequestPages
    parameters: frozenset[str] = frozenset()

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        refuse_unknown(request.query_params, self.parameters)

    def get_queryset(self) -> QuerySet[RequestRecord]:
        return RequestRecord.objects.filter(organization_id=caller_of(self.request).organization).exclude(outcome="")


class RequestList(ListModelMixin, OwnRequests):
    """List requests."""

    parameters = frozenset({"limit", "cursor"})

    def get(self, request: Request) -> Response:
        return self.list(request)


class RequestDetail(RetrieveModelMixin, OwnRequests):
    """Show one request."""

    def get(self, request: Request, pk: str) -> Response:
        return self.retrieve(request, pk=pk)
