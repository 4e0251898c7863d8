"""How requests end, and their batch."""

from __future__ import annotations

import pytest
from pytest_django import DjangoAssertNumQueries

from batches.ending import Ended, cancel, store_results
from batches.models import Batch, BatchRequest
from tests.batches.tools import counts_of, ids_of, make_batch, params, results_of
from tests.conftest import Tenant

pytestmark = pytest.mark.django_db
GOOD, BAD = '{"type":"succeeded"}', '{"type":"errored"}'


def test_it_works(alice: Tenant) -> None:
    batch = make_batch(alice, *[params()] * 3)
    first, second, third = ids_of(batch)
    store_results(batch.pk, [Ended(first, "succeeded", GOOD), Ended(third, "errored", BAD)])
    assert ids_of(batch) == [second]
    assert (counts_of(batch), batch.status) == ({"processing": 1, "succeeded": 1, "errored": 1}, "in_progress")
    store_results(batch.pk, [Ended(second, "expired", '{"type":"expired"}')])
    assert (counts_of(batch), batch.status) == ({"succeeded": 1, "errored": 1, "expired": 1}, "ended")
    assert [result["type"] for result in results_of(batch)] == ["succeeded", "expired", "errored"]
    assert not BatchRequest.objects.exists()


def test_the_first_result_stays(alice: Tenant) -> None:
    batch = make_batch(alice, *[params()] * 2)
    first, _ = ids_of(batch)
    store_results(batch.pk, [Ended(first, "succeeded", GOOD)])
    store_results(batch.pk, [Ended(first, "errored", BAD)])
    assert (counts_of(batch), results_of(batch)) == ({"processing": 1, "succeeded": 1}, [{"type": "succeeded"}])


def test_a_request_of_another_batch_is_left_alone(alice: Tenant) -> None:
    batch, other = make_batch(alice, params()), make_batch(alice, params())
    store_results(batch.pk, [Ended(ids_of(other)[0], "succeeded", GOOD)])
    assert counts_of(batch) == counts_of(other) == {"processing": 1}


def test_many_take_as_many_queries_as_few(alice: Tenant, django_assert_max_num_queries: DjangoAssertNumQueries) -> None:
    batch = make_batch(alice, *[params()] * 300)
    with django_assert_max_num_queries(12):
        store_results(batch.pk, [Ended(name, "succeeded", GOOD) for name in ids_of(batch)])
    assert counts_of(batch) == {"succeeded": 300}


def test_cancel_is_for_what_runs(alice: Tenant) -> None:
    running, ended = make_batch(alice, params()), make_batch(alice, params())
    store_results(ended.pk, [Ended(ids_of(ended)[0], "succeeded", GOOD)])
    assert cancel(Batch.objects.all()) == 1
    assert cancel(Batch.objects.all()) == 0
    assert (counts_of(running), running.status) == ({"processing": 1}, "canceling")
