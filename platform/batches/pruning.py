"""Deleting the results of old batches, and what is left of their requests."""

from __future__ import annotations

from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from batches.models import Batch, BatchRequest, BatchResult

AT_ONCE = 1000  # rows in one transaction, so that others can write between


def archive_old_batches() -> int:
    """Archive the batches that came so long ago that their results are no longer kept; return how many."""
    oldest = timezone.now() - timedelta(days=settings.SLUICE.batch_results_days)
    old = Batch.objects.filter(archived_at=None, ended_at__isnull=False, created_at__lt=oldest)
    found = list(old.order_by("created_at").values_list("pk", flat=True))
    for batch_id in found:
        _delete_parts(batch_id)
        Batch.objects.filter(pk=batch_id).update(archived_at=timezone.now())
    return len(found)


def delete_batch(batch: Batch) -> None:
    """Delete a batch that has ended."""
    _delete_parts(batch.pk)
    batch.delete()


def _delete_parts(batch_id: str) -> None:
    for model in (BatchRequest, BatchResult):
        parts = model._default_manager.filter(batch_id=batch_id)
        while ids := list(parts.order_by("number").values_list("pk", flat=True)[:AT_ONCE]):
            with transaction.atomic():
                parts.filter(pk__in=ids).delete()
