"""From a body to a batch: its form is checked at once, each request in it only when that runs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from itertools import islice
from typing import Annotated

import msgspec
from django.conf import settings
from django.db import transaction
from django.db.models import Sum
from django.utils import timezone
from msgspec import Meta, Struct

from accounts.callers import Caller
from batches.models import Batch, BatchRequest
from common.decoding import decode
from common.errors import InvalidRequest, RateLimited
from common.ids import new_id

MOST_REQUESTS = 10_000
CUSTOM_ID = r"^[a-zA-Z0-9_-]{1,64}\Z"
AT_ONCE = 500  # rows in one statement
RETRY_S = 60


class RequestIn(Struct, forbid_unknown_fields=True):
    """One request of a batch; `params` are the body that POST /v1/messages takes."""

    custom_id: Annotated[str, Meta(pattern=CUSTOM_ID)]
    params: msgspec.Raw


class BatchBody(Struct, forbid_unknown_fields=True):
    """The body of POST /v1/messages/batches."""

    requests: Annotated[list[RequestIn], Meta(min_length=1, max_length=MOST_REQUESTS)]


_decoder = msgspec.json.Decoder(BatchBody)


def parse_batch(raw: bytes) -> BatchBody:
    """Read the body; raise `InvalidRequest` naming the field."""
    body = decode(_decoder, raw, unsupported=())
    first: dict[str, int] = {}
    for number, request in enumerate(body.requests):
        where = f"requests[{number}]"
        if bytes(memoryview(request.params)[:1]) != b"{":
            raise InvalidRequest(f"{where}.params: expected an object.", code="invalid_type")
        if (earlier := first.setdefault(request.custom_id, number)) != number:
            raise InvalidRequest(f"{where}.custom_id: requests[{earlier}] has the same; expected one for each request.")
    return body


def create_batch(caller: Caller, body: BatchBody) -> Batch:
    """Keep a batch and its requests; raise `RateLimited` where the organisation has too many that wait."""
    _check_room(caller.organization, len(body.requests))
    now = timezone.now()
    batch = Batch(
        organization_id=caller.organization,
        key_id=caller.key,
        created_at=now,
        expires_at=now + timedelta(seconds=settings.SLUICE.batch_expires_s),
        processing=len(body.requests),
    )
    rows = _rows(batch, body)
    with transaction.atomic():
        batch.save(force_insert=True)
        while chunk := list(islice(rows, AT_ONCE)):
            BatchRequest.objects.bulk_create(chunk)
    return batch


def _check_room(organization: str, wanted: int) -> None:
    waiting = Batch.objects.filter(organization_id=organization, ended_at=None).aggregate(sum=Sum("processing"))["sum"]
    if (waiting or 0) + wanted > (limit := settings.SLUICE.batch_queue_limit):
        message = f"requests: {waiting or 0} requests of batches wait already, and {limit} may. Try again later."
        raise RateLimited(message, headers={"retry-after": str(RETRY_S)})


def _rows(batch: Batch, body: BatchBody) -> Iterator[BatchRequest]:
    for number, request in enumerate(body.requests):
        yield BatchRequest(
            id=new_id("msg"), batch=batch, number=number, custom_id=request.custom_id, params=bytes(request.params)
        )
