"""/v1/messages/batches."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import connections
from django.test import AsyncClient, Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from accounts.keys import create_key
from batches.ending import Ended, store_results
from batches.models import Batch, BatchResult
from batches.pruning import delete_batch
from batches.tasks import archive_batches
from common.errors import Gone
from tests.batches.tools import body_of, ids_of, make_batch, params
from tests.conftest import Tenant

pytestmark = pytest.mark.django_db
PATH = "/v1/messages/batches"
BEHIND_TLS = {"host": "testserver", "x-forwarded-proto": "https"}


def post(client: Client, tenant: Tenant, body: bytes, path: str = PATH) -> Any:
    return client.post(path, body, content_type="application/json", headers=tenant.headers)


def end(batch: Batch) -> None:
    """Have all requests of a batch succeed."""
    body = '{"type":"succeeded","message":{}}'
    store_results(batch.pk, [Ended(name, "succeeded", body) for name in ids_of(batch)])


def error_of(r: Any) -> tuple[int, str, str]:
    error = r.json()["error"]
    return r.status_code, error["type"], error["message"]


def test_it_works(client: Client, alice: Tenant, bob: Tenant) -> None:
    r = post(client, alice, body_of(params(), params()))
    assert r.status_code == 200
    made = r.json()
    assert (made["type"], made["processing_status"]) == ("message_batch", "in_progress")
    counts = {"processing": 2, "succeeded": 0, "errored": 0, "canceled": 0, "expired": 0}
    assert made["request_counts"] == counts
    assert [made[name] for name in ("ended_at", "archived_at", "cancel_initiated_at", "results_url")] == [None] * 4
    assert made["created_at"].endswith("Z")
    assert client.get(f"{PATH}/{made['id']}", headers=bob.headers).json() == made


def test_counts_come_with_the_end(client: Client, alice: Tenant) -> None:
    batch = make_batch(alice, params(), params())
    store_results(batch.pk, [Ended(ids_of(batch)[0], "errored", "{}")])
    assert client.get(f"{PATH}/{batch.pk}", headers=alice.headers).json()["request_counts"]["processing"] == 2
    end(batch)
    told = client.get(f"{PATH}/{batch.pk}", headers=alice.headers).json()
    assert told["request_counts"] == {"processing": 0, "succeeded": 1, "errored": 1, "canceled": 0, "expired": 0}
    assert told["processing_status"] == "ended"
    assert told["results_url"] == f"http://testserver{PATH}/{batch.pk}/results"


def test_the_results_url_is_https_behind_a_proxy_that_says_so(client: Client, alice: Tenant) -> None:
    batch = make_batch(alice, params())
    end(batch)
    r = client.get(f"{PATH}/{batch.pk}", headers=alice.headers | BEHIND_TLS)
    assert r.json()["results_url"].startswith("https://testserver/")


def test_a_look_costs_two_queries_at_most(
    client: Client, alice: Tenant, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    batch = make_batch(alice, *[params()] * 100)
    with django_assert_max_num_queries(2):
        client.get(f"{PATH}/{batch.pk}", headers=alice.headers)


class TestList:
    def pages(self, client: Client, tenant: Tenant, **query: Any) -> Any:
        return client.get(PATH, query, headers=tenant.headers)

    def test_it_works(self, client: Client, alice: Tenant, charlie: Tenant) -> None:
        made = [make_batch(alice, params()).pk for _ in range(5)][::-1]
        make_batch(charlie, params())
        first = self.pages(client, alice, limit=2).json()
        assert [one["id"] for one in first["data"]] == made[:2]
        assert (first["has_more"], first["first_id"], first["last_id"]) == (True, made[0], made[1])
        second = self.pages(client, alice, limit=2, after_id=first["last_id"]).json()
        assert [one["id"] for one in second["data"]] == made[2:4]
        last = self.pages(client, alice, limit=2, after_id=second["last_id"]).json()
        assert ([one["id"] for one in last["data"]], last["has_more"]) == (made[4:], False)

    def test_it_goes_back(self, client: Client, alice: Tenant) -> None:
        made = [make_batch(alice, params()).pk for _ in range(4)][::-1]
        before = self.pages(client, alice, limit=2, before_id=made[3]).json()
        assert ([one["id"] for one in before["data"]], before["has_more"]) == (made[1:3], True)

    def test_it_may_be_empty(self, client: Client, alice: Tenant) -> None:
        assert self.pages(client, alice).json() == {"data": [], "has_more": False, "first_id": None, "last_id": None}

    @pytest.mark.parametrize(
        ("query", "name"),
        [
            ({"limit": "0"}, "limit"),
            ({"limit": "1001"}, "limit"),
            ({"after_id": "none"}, "after_id"),
            ({"before_id": "none"}, "before_id"),
            ({"before_id": "a", "after_id": "b"}, "before_id"),
            ({"page": "1"}, "page"),
        ],
    )
    def test_it_rejects_a_wrong_query_by_name(
        self, client: Client, alice: Tenant, query: dict[str, str], name: str
    ) -> None:
        status, kind, message = error_of(self.pages(client, alice, **query))
        assert (status, kind, message.partition(":")[0]) == (400, "invalid_request_error", name)


class TestResults:
    @pytest.mark.django_db(transaction=True)  # other threads look
    async def test_it_works(self, async_client: AsyncClient, alice: Tenant) -> None:
        batch = await self.ended_batch(alice, 250)
        r: Any = await async_client.get(
            f"{PATH}/{batch.pk}/results", headers=alice.headers | {"accept": "application/binary"}
        )
        assert (r.status_code, r.headers["content-type"]) == (200, "application/x-jsonl")
        chunks = [chunk async for chunk in r]
        assert len(chunks) == 3
        lines = [json.loads(line) for line in b"".join(chunks).splitlines()]
        assert [line["custom_id"] for line in lines] == [f"r{number}" for number in range(250)]
        assert lines[0]["result"]["type"] == "succeeded"
        await sync_to_async(connections.close_all)()

    @pytest.mark.django_db(transaction=True)  # other threads look
    async def test_it_is_cut_when_the_rest_is_deleted(self, async_client: AsyncClient, alice: Tenant) -> None:
        batch = await self.ended_batch(alice, 250)
        r: Any = await async_client.get(f"{PATH}/{batch.pk}/results", headers=alice.headers)
        chunks = aiter(r)
        await anext(chunks)
        await sync_to_async(delete_batch)(batch)
        with pytest.raises(Gone, match="were deleted"):
            await anext(chunks)
        await sync_to_async(connections.close_all)()

    @staticmethod
    async def ended_batch(tenant: Tenant, size: int) -> Batch:
        batch = await sync_to_async(make_batch)(tenant, *[params()] * size)
        await sync_to_async(end)(batch)
        return batch

    def test_there_are_none_before_the_end(self, client: Client, alice: Tenant) -> None:
        batch = make_batch(alice, params())
        assert error_of(client.get(f"{PATH}/{batch.pk}/results", headers=alice.headers))[:2] == (404, "not_found_error")

    def test_there_are_none_once_it_is_archived(self, client: Client, alice: Tenant) -> None:
        batch = make_batch(alice, params())
        end(batch)
        Batch.objects.update(created_at=timezone.now() - timedelta(days=30))
        archive_batches()
        assert error_of(client.get(f"{PATH}/{batch.pk}/results", headers=alice.headers))[:2] == (410, "not_found_error")
        told = client.get(f"{PATH}/{batch.pk}", headers=alice.headers).json()
        assert (told["archived_at"] is not None, told["results_url"]) == (True, None)


class TestCancelling:
    def test_it_works(self, client: Client, alice: Tenant) -> None:
        batch = make_batch(alice, params())
        r = client.post(f"{PATH}/{batch.pk}/cancel", headers=alice.headers)
        assert (r.status_code, r.json()["processing_status"]) == (200, "canceling")
        again = client.post(f"{PATH}/{batch.pk}/cancel", headers=alice.headers).json()
        assert again["cancel_initiated_at"] == r.json()["cancel_initiated_at"] is not None

    def test_what_has_ended_stays_as_it_is(self, client: Client, alice: Tenant) -> None:
        batch = make_batch(alice, params())
        end(batch)
        told = client.post(f"{PATH}/{batch.pk}/cancel", headers=alice.headers).json()
        assert (told["processing_status"], told["cancel_initiated_at"]) == ("ended", None)


class TestDeleting:
    def test_it_works(self, client: Client, alice: Tenant) -> None:
        batch = make_batch(alice, params())
        end(batch)
        r = client.delete(f"{PATH}/{batch.pk}", headers=alice.headers)
        assert (r.status_code, r.json()) == (200, {"id": batch.pk, "type": "message_batch_deleted"})
        assert not BatchResult.objects.exists()
        assert client.get(f"{PATH}/{batch.pk}", headers=alice.headers).status_code == 404

    def test_what_runs_is_not_deleted(self, client: Client, alice: Tenant) -> None:
        batch = make_batch(alice, params())
        r = client.delete(f"{PATH}/{batch.pk}", headers=alice.headers)
        assert error_of(r)[:2] == (400, "invalid_request_error")
        assert ids_of(batch)


@pytest.mark.parametrize(("method", "more"), [("get", ""), ("delete", ""), ("post", "/cancel"), ("get", "/results")])
def test_an_outsider_finds_nothing(client: Client, alice: Tenant, charlie: Tenant, method: str, more: str) -> None:
    batch = make_batch(alice, params())
    r = getattr(client, method)(f"{PATH}/{batch.pk}{more}", headers=charlie.headers)
    assert error_of(r)[:2] == (404, "not_found_error")
    batch.refresh_from_db()
    assert batch.status == "in_progress"


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"requests":[{"custom_id":"a b","params":{}}]}'])
def test_it_rejects_a_wrong_body(client: Client, alice: Tenant, body: bytes) -> None:
    assert error_of(post(client, alice, body))[:2] == (400, "invalid_request_error")
    assert not Batch.objects.exists()


def test_it_rejects_a_body_that_is_too_large(client: Client, alice: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("api.batches_view.MB", 10)
    assert error_of(post(client, alice, b" " * (settings.SLUICE.batch_max_body_mb * 10 + 1)))[:2] == (
        413,
        "request_too_large",
    )


def test_it_rejects_another_type_of_body(client: Client, alice: Tenant) -> None:
    r = client.post(PATH, b"{}", content_type="text/plain", headers=alice.headers)
    assert error_of(r)[:2] == (415, "invalid_request_error")


def test_it_rejects_a_key_without_the_scope(client: Client, alice: Tenant) -> None:
    _, plain = create_key(name="narrow", organization="alpha", scopes=["usage"])
    for r in (
        client.get(PATH, headers={"x-api-key": plain}),
        client.get(f"{PATH}/x/results", headers={"x-api-key": plain}),
    ):
        assert error_of(r)[:2] == (403, "permission_error")


def test_it_rejects_who_has_no_key(client: Client) -> None:
    assert error_of(client.get(PATH))[:2] == (401, "authentication_error")
