"""Deleting the results of old batches."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from batches.ending import Ended, store_results
from batches.models import Batch, BatchResult
from batches.pruning import delete_batch
from batches.tasks import archive_batches
from tests.batches.tools import ids_of, make_batch, params
from tests.conftest import Tenant

pytestmark = pytest.mark.django_db


def ended_batch(tenant: Tenant, *, days_ago: float = 0) -> Batch:
    batch = make_batch(tenant, params())
    store_results(batch.pk, [Ended(ids_of(batch)[0], "succeeded", "{}")])
    Batch.objects.filter(pk=batch.pk).update(created_at=timezone.now() - timedelta(days=days_ago))
    return batch


def test_it_works(alice: Tenant) -> None:
    old, new = ended_batch(alice, days_ago=29.1), ended_batch(alice, days_ago=28.9)
    archive_batches()
    old.refresh_from_db()
    new.refresh_from_db()
    assert (old.archived_at is not None, new.archived_at) == (True, None)
    assert list(BatchResult.objects.values_list("batch_id", flat=True)) == [new.pk]


def test_what_still_runs_is_left_alone(alice: Tenant) -> None:
    batch = make_batch(alice, params())
    Batch.objects.update(created_at=timezone.now() - timedelta(days=99))
    archive_batches()
    assert len(ids_of(batch)) == 1


def test_a_deleted_batch_takes_its_results_along(alice: Tenant) -> None:
    delete_batch(ended_batch(alice))
    assert not Batch.objects.exists()
    assert not BatchResult.objects.exists()
