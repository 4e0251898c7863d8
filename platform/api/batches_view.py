"""/v1/messages/batches: Anthropic's Message Batches, of the caller's organisation."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping
from datetime import datetime
from typing import IO, Any, cast

from asgiref.sync import sync_to_async
from django.conf import settings
from django.db.models import Q, QuerySet
from django.http import StreamingHttpResponse
from django.urls import reverse
from django.utils.cache import add_never_cache_headers
from rest_framework.parsers import BaseParser
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.models import ONE_LINE
from api.authentication import caller_of
from api.pages import limit_of, limit_parameter
from api.parameters import Parameter
from api.permissions import MayInfer
from api.views import StrictView
from batches.creating import create_batch, parse_batch
from batches.ending import cancel
from batches.models import KINDS, Batch, BatchResult
from batches.pruning import delete_batch
from common.errors import Gone, InvalidRequest, NotFound, RequestTooLarge

USUAL_LIMIT, MOST = 20, 1000
# Anthropic's clients say so under `client.beta`.
BETA = Parameter("beta", "A hint: accepted, and nothing comes of it here.", {"type": "string"})
PAGE = (
    limit_parameter(USUAL_LIMIT, most=MOST),
    Parameter("after_id", "Those after this one.", {"type": "string"}),
    Parameter("before_id", "Those before this one.", {"type": "string"}),
)
AT_ONCE = 100  # results that are in memory
RAW, MB = "raw", 1_000_000

logger = logging.getLogger(__name__)


class BatchParser(BaseParser):
    """Leaves the body that creates a batch as it came, so that the requests in it stay so."""

    media_type = "application/json"

    def parse(
        self, stream: IO[bytes], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> dict[str, bytes]:
        limit = settings.SLUICE.batch_max_body_mb * MB
        raw = stream.read(limit + 1)
        if len(raw) > limit:
            raise RequestTooLarge(f"The body is larger than the {limit} bytes allowed.")
        return {RAW: raw}


class OwnBatches(StrictView[Batch]):
    """The batches of the caller's organisation, and no others."""

    permission_classes = (MayInfer,)
    parser_classes = (BatchParser,)
    tag = "Message Batches"

    def parameters_of(self, method: str) -> tuple[Parameter, ...]:
        return BETA, *super().parameters_of(method)

    def own(self) -> QuerySet[Batch]:
        return Batch.objects.filter(organization_id=caller_of(self.request).organization)

    def find(self, pk: str) -> Batch:
        batch = self.own().filter(pk=pk).first()
        if batch is None:
            raise NotFound(f"There is no batch {pk}.")
        return batch

    def told(self, batch: Batch) -> dict[str, Any]:
        """Return a batch as JSON. As with Anthropic, all of its requests are processing until the last has ended."""
        ended = batch.ended_at is not None
        counts = {kind: getattr(batch, kind) if ended else 0 for kind in KINDS}
        available = ended and batch.archived_at is None
        url = self.request.build_absolute_uri(reverse("batch-results", args=[batch.pk]))
        return {
            "id": batch.pk,
            "type": "message_batch",
            "processing_status": batch.status,
            "request_counts": {"processing": 0 if ended else batch.total} | counts,
            "created_at": _time(batch.created_at),
            "expires_at": _time(batch.expires_at),
            "ended_at": _time(batch.ended_at),
            "archived_at": _time(batch.archived_at),
            "cancel_initiated_at": _time(batch.cancel_initiated_at),
            "results_url": url if available else None,
        }


class BatchList(OwnBatches):
    """Create batches, and list them."""

    parameters = PAGE

    def post(self, request: Request) -> Response:
        raw = cast(dict[str, bytes], request.data).get(RAW, b"")  # REST framework reads none that is empty
        batch = create_batch(caller_of(request), parse_batch(raw))
        logger.info("%s: %d requests, by key %s of %s", batch.pk, batch.processing, batch.key_id, batch.organization_id)
        return Response(self.told(batch))

    def get(self, request: Request) -> Response:
        query = request.query_params
        limit = limit_of(query, usually=USUAL_LIMIT, most=MOST)
        after, before = query.get("after_id"), query.get("before_id")
        if after is not None and before is not None:
            raise InvalidRequest("before_id: give it or after_id, not both.")
        if before is not None:
            found = list(self._beside("before_id", before, newer=True).order_by("created_at", "pk")[: limit + 1])
            page = found[:limit][::-1]
        else:
            batches = self.own() if after is None else self._beside("after_id", after, newer=False)
            found = list(batches.order_by("-created_at", "-pk")[: limit + 1])
            page = found[:limit]
        return Response(
            {
                "data": [self.told(batch) for batch in page],
                "has_more": len(found) > limit,
                "first_id": page[0].pk if page else None,
                "last_id": page[-1].pk if page else None,
            }
        )

    def _beside(self, name: str, pk: str, *, newer: bool) -> QuerySet[Batch]:
        """Return the batches that are newer, or older, than one of the caller's."""
        one = self.own().filter(pk=pk).first() if ONE_LINE.fullmatch(pk) else None
        if one is None:
            raise InvalidRequest(f"{name}: there is no batch {pk}.")
        op = "gt" if newer else "lt"
        same = Q(created_at=one.created_at, **{f"pk__{op}": one.pk})
        return self.own().filter(Q(**{f"created_at__{op}": one.created_at}) | same)


class BatchDetail(OwnBatches):
    """Show a batch, delete it."""

    def get(self, request: Request, pk: str) -> Response:
        return Response(self.told(self.find(pk)))

    def delete(self, request: Request, pk: str) -> Response:
        batch = self.find(pk)
        if batch.ended_at is None:
            raise InvalidRequest(f"{pk} has not ended. Cancel it first, and wait until it has.")
        delete_batch(batch)
        return Response({"id": pk, "type": "message_batch_deleted"})


class BatchCancel(OwnBatches):
    """Cancel a batch. Asking again changes nothing, nor does asking when it has ended."""

    def post(self, request: Request, pk: str) -> Response:
        cancel(self.own().filter(pk=pk))
        return Response(self.told(self.find(pk)))


class BatchResults(OwnBatches):
    """The results of a batch that has ended, a line of JSON each."""

    def perform_content_negotiation(self, request: Request, force: bool = False) -> Any:
        return super().perform_content_negotiation(
            request, force=True
        )  # Anthropic's clients ask for application/binary

    def get(self, request: Request, pk: str) -> StreamingHttpResponse:
        batch = self.find(pk)
        if batch.ended_at is None:
            raise NotFound(f"{pk} has no results yet: it has not ended.")
        if batch.archived_at is not None:
            raise Gone(f"The results of {pk} are no longer kept.")
        response = StreamingHttpResponse(_lines(pk, batch.total), content_type="application/x-jsonl")
        add_never_cache_headers(response)
        return response


async def _lines(pk: str, total: int) -> AsyncIterator[bytes]:
    """Yield results a handful at a time: asynchronously, since Django gathers all that a plain iterator yields."""
    last = -1  # they are numbered without gaps
    while rows := await sync_to_async(_some)(pk, last):
        last = rows[-1][0]
        yield b"".join(f'{{"custom_id":"{custom_id}","result":{body}}}\n'.encode() for _, custom_id, body in rows)
    if last + 1 < total:
        raise Gone(
            f"The rest of the results of {pk} were deleted meanwhile."
        )  # cuts the connection: nobody takes it for all


def _some(pk: str, after: int) -> list[tuple[int, str, str]]:
    results = BatchResult.objects.filter(batch_id=pk, number__gt=after).order_by("number")
    return list(results.values_list("number", "custom_id", "body")[:AT_ONCE])


def _time(moment: datetime | None) -> str | None:
    return moment.isoformat().replace("+00:00", "Z") if moment else None
