"""GET /v1/requests and /v1/requests/{id}: the records of the caller's organisation."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from rest_framework import serializers
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from api.authentication import caller_of
from api.filters import FROM, KEY, MODEL, OUTCOME, TO, chosen_records
from api.openapi.views import described
from api.pages import PAGE_PARAMETERS, Pages, page_of
from api.permissions import MaySeeUsage
from api.views import StrictView
from inference.protocol.outcomes import OUTCOMES
from records.models import RequestRecord


class RequestSerializer(serializers.ModelSerializer[RequestRecord]):
    """What is kept of a request: numbers, never words. Times are in ms."""

    key = serializers.CharField(source="key_id", read_only=True, help_text="The key's id.")
    outcome = serializers.ChoiceField(choices=OUTCOMES, read_only=True)
    stages = serializers.DictField(
        child=serializers.FloatField(), read_only=True, help_text="What the gateway spent its time on."
    )
    checks = serializers.DictField(
        child=serializers.FloatField(), read_only=True, help_text="The safety checks that ran, and how long each took."
    )
    held_tokens = serializers.IntegerField(
        read_only=True, min_value=0, help_text="The most that safety checks held back at a time."
    )
    held_ms = serializers.FloatField(
        read_only=True, allow_null=True, help_text="How long they held the first tokens back."
    )
    tpot_ms = serializers.FloatField(
        read_only=True, allow_null=True, help_text="Time per output token after the first."
    )

    class Meta:
        model = RequestRecord
        fields = (
            "id", "key", "model", "created_at", "finished_at", "outcome", "input_tokens", "cached_tokens",
            "output_tokens", "attempts", "queue_ms", "prefill_ms", "ttft_ms", "tpot_ms", "tbt_p99_ms", "total_ms",
            "streamed", "bytes_sent", "resumes", "stages", "checks", "held_tokens", "held_ms",
        )  # fmt: skip
        read_only_fields = fields


EXAMPLE: dict[str, Any] = {
    "id": "msg_0190f3a1b2c34d5e6f708192a3b4c5d6",
    "key": "key_0190f3a1b2c34d5e6f708192a3b4c5d6",
    "model": "SmolLM2-135M-Instruct",
    "created_at": "2026-01-31T12:00:00.120000Z",
    "finished_at": "2026-01-31T12:00:00.580000Z",
    "outcome": "end_turn",
    "input_tokens": 36,
    "cached_tokens": 0,
    "output_tokens": 8,
    "attempts": 1,
    "queue_ms": 1.2,
    "prefill_ms": 40.5,
    "ttft_ms": 61.3,
    "tpot_ms": 18.9,
    "tbt_p99_ms": 21.4,
    "total_ms": 452.7,
    "streamed": True,
    "bytes_sent": 2310,
    "resumes": 0,
    "stages": {"auth": 0.1, "validation": 0.2},
    "checks": {"patterns": 0.4, "toxicity": 1.1},
    "held_tokens": 1,
    "held_ms": 0.3,
}


class OwnRequests(StrictView[RequestRecord]):
    """The settled records of the caller's organisation, and no others."""

    permission_classes = (MaySeeUsage,)
    serializer_class = RequestSerializer
    pagination_class = Pages
    tag = "Usage"

    def get_queryset(self) -> QuerySet[RequestRecord]:
        return RequestRecord.objects.filter(organization_id=caller_of(self.request).organization).exclude(outcome="")


class RequestList(ListModelMixin, OwnRequests):
    """List requests."""

    parameters = (MODEL, KEY, OUTCOME, FROM, TO, *PAGE_PARAMETERS)

    def get_queryset(self) -> QuerySet[RequestRecord]:
        return super().get_queryset().filter(**chosen_records(self.query, caller_of(self.request).organization))

    @described(
        "listRequests",
        "List requests",
        "What is kept of the requests of the key's organisation that have ended, the newest first. Needs the scope "
        "`usage`.",
        answer=page_of(RequestSerializer),
        example={"results": [EXAMPLE], "next": None},
    )
    def get(self, request: Request) -> Response:
        return self.list(request)


class RequestDetail(RetrieveModelMixin, OwnRequests):
    """Show one request."""

    @described(
        "showRequest", "Get a request", "What is kept of one request.", answer=RequestSerializer, example=EXAMPLE
    )
    def get(self, request: Request, pk: str) -> Response:
        return self.retrieve(request, pk=pk)
