"""How requests of a batch end, each once, and the batch with the last of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from batches.models import Batch, BatchRequest, BatchResult, Kind


@dataclass(frozen=True, slots=True)
class Ended:
    """A request, by its message's id, that has ended, and its result as it is told."""

    id: str
    kind: Kind
    body: str


def store_results(batch_id: str, ended: Sequence[Ended]) -> None:
    """Put results in the place of their requests. What has one already keeps it, whoever stores at the same time."""
    with transaction.atomic():
        batch = Batch.objects.select_for_update().get(pk=batch_id)
        found = {one.id: one for one in ended}
        left = BatchRequest.objects.filter(batch=batch).defer("params").in_bulk(found)
        results = [_result(request, found[name]) for name, request in left.items()]
        BatchResult.objects.bulk_create(results)
        BatchRequest.objects.filter(pk__in=left).delete()
        _count(batch, results)


def cancel(batches: QuerySet[Batch]) -> int:
    """Have batches canceled that run; return how many. What was canceled before, or has ended, is left alone."""
    return batches.filter(cancel_initiated_at=None, ended_at=None).update(cancel_initiated_at=timezone.now())


def _result(request: BatchRequest, ended: Ended) -> BatchResult:
    return BatchResult(
        id=request.id,
        batch_id=request.batch_id,
        number=request.number,
        custom_id=request.custom_id,
        kind=ended.kind,
        body=ended.body,
    )


def _count(batch: Batch, results: Iterable[BatchResult]) -> None:
    kinds = Counter(result.kind for result in results)
    for kind, count in kinds.items():
        setattr(batch, kind, getattr(batch, kind) + count)
    batch.processing -= kinds.total()
    if not batch.processing:
        batch.ended_at = timezone.now()
    batch.save(update_fields=[*kinds, "processing", "ended_at"])
