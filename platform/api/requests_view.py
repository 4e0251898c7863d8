"""GET /v1/requests and /v1/requests/{id}: the records of the caller's organisation."""

from __future__ import annotations

from typing import Any, cast

from django.db.models import QuerySet
from rest_framework import generics, serializers
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.pagination import CursorPagination
from rest_framework.request import Request
from rest_framework.response import Response

from api.authentication import CallerUser
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

    def get_paginated_response(self, data: Any) -> Any:
        response = super().get_paginated_response(data)
        response.data = {"results": data, "next": self.get_next_link()}
        return response


class OwnRequests(generics.GenericAPIView[RequestRecord]):
    """The settled records of the caller's organisation, and no others."""

    serializer_class = RequestSerializer
    pagination_class = RequestPages

    def get_queryset(self) -> QuerySet[RequestRecord]:
        user = cast(CallerUser, self.request.user)
        return RequestRecord.objects.filter(organization_id=user.caller.organization).exclude(outcome="")


class RequestList(ListModelMixin, OwnRequests):
    """List requests."""

    def get(self, request: Request) -> Response:
        return self.list(request)


class RequestDetail(RetrieveModelMixin, OwnRequests):
    """Show one request."""

    def get(self, request: Request, pk: str) -> Response:
        return self.retrieve(request, pk=pk)
