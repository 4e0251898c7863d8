"""Small stand-ins for the tests of batches."""

from __future__ import annotations

import json
from typing import Any

from accounts.finding import find_caller_by_id
from batches.creating import create_batch, parse_batch
from batches.models import Batch, BatchRequest, BatchResult
from tests.conftest import Tenant


def params(text: str = "Tell me.", **more: Any) -> dict[str, Any]:
    return {"model": "default", "max_tokens": 3, "messages": [{"role": "user", "content": text}]} | more


def body_of(*requests: Any) -> bytes:
    """A body with requests named r0, r1, … of these params."""
    listed = [{"custom_id": f"r{number}", "params": one} for number, one in enumerate(requests)]
    return json.dumps({"requests": listed}).encode()


def make_batch(tenant: Tenant, *requests: Any) -> Batch:
    caller = find_caller_by_id(tenant.key.pk)
    assert caller is not None
    return create_batch(caller, parse_batch(body_of(*requests)))


def ids_of(batch: Batch) -> list[str]:
    """The ids of the requests that have not ended."""
    return list(BatchRequest.objects.filter(batch=batch).order_by("number").values_list("pk", flat=True))


def results_of(batch: Batch) -> list[Any]:
    bodies = BatchResult.objects.filter(batch=batch).order_by("number").values_list("body", flat=True)
    return [json.loads(body) for body in bodies]


def counts_of(batch: Batch) -> dict[str, int]:
    """What the batch's own row says of its requests, where that is not 0."""
    batch.refresh_from_db()
    counts = {kind: getattr(batch, kind) for kind in ("processing", "succeeded", "errored", "canceled", "expired")}
    return {kind: count for kind, count in counts.items() if count}
