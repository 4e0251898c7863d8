"""GET /v1/requests and /v1/requests/{id}: the records of the caller's organisation."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from rest_framework import generics, serializers
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from api.authentication import caller_of
from api.pages import PAGE_PARAMETERS, Pages
from api.parameters import refuse_unknown
from api.permissions import MaySeeUsage
from records.models import RequestRecord


class RequestSerializer(serializers.ModelSerializer[RequestRecord]):
    """A record as its owner sees it."""

    tpot_ms = serializers.FloatField(read_only=True)

    class Meta:
        model = RequestRecord
        fields = (
            "id", "model", "created_at", "finished_at", "outcome", "input_tokens", "cached_tokens", "output_tokens",
            "attempts", "queue_ms", "prefill_ms", "ttft_ms", "tpot_ms", "tbt_p99_ms", "total_ms", "streamed",
            "bytes_sent", "resumes", "stages",
        )  # fmt: skip


class OwnRequests(generics.GenericAPIView[RequestRecord]):
    """The settled records of the caller's organisation, and no others."""

    permission_classes = (MaySeeUsage,)
    serializer_class = RequestSerializer
    pagination_class = Pages
    parameters: frozenset[str] = frozenset()

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        refuse_unknown(request.query_params, self.parameters)

    def get_queryset(self) -> QuerySet[RequestRecord]:
        return RequestRecord.objects.filter(organization_id=caller_of(self.request).organization).exclude(outcome="")


class RequestList(ListModelMixin, OwnRequests):
    """List requests."""

    parameters = PAGE_PARAMETERS

    def get(self, request: Request) -> Response:
        return self.list(request)


class RequestDetail(RetrieveModelMixin, OwnRequests):
    """Show one request."""

    def get(self, request: Request, pk: str) -> Response:
        return self.retrieve(request, pk=pk)
