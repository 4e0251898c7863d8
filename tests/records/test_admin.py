"""Records in the admin."""

from __future__ import annotations

import pytest
from django.test import Client
from django.utils import timezone

from records.models import RequestRecord
from tests.conftest import Tenant

pytestmark = pytest.mark.django_db


def make(tenant: Tenant, message_id: str) -> RequestRecord:
    return RequestRecord.objects.create(
        id=message_id, organization=tenant.key.organization, key=tenant.key, model="m", created_at=timezone.now(),
        input_tokens=3, outcome="end_turn", output_tokens=5, ttft_ms=31.4, stream_ms=80.0,
    )  # fmt: skip


def test_it_works(admin_client: Client, alice: Tenant) -> None:
    make(alice, "msg_1")
    page = admin_client.get("/admin/records/requestrecord/").content.decode()
    assert "msg_1" in page
    assert "31 ms" in page
    assert admin_client.get("/admin/records/requestrecord/msg_1/change/").status_code == 200


def test_it_is_called_by_its_name(admin_client: Client) -> None:
    assert "| Sluice</title>" in admin_client.get("/admin/").content.decode()


def test_the_number_of_queries_is_constant(
    admin_client: Client, alice: Tenant, django_assert_max_num_queries: pytest.FixtureRequest
) -> None:
    for i in range(20):
        make(alice, f"msg_{i}")
    with django_assert_max_num_queries(12):  # type: ignore[operator]
        admin_client.get("/admin/records/requestrecord/")


def test_records_are_not_changed_by_hand(admin_client: Client, alice: Tenant) -> None:
    make(alice, "msg_1")
    assert admin_client.get("/admin/records/requestrecord/add/").status_code == 403
    assert admin_client.post("/admin/records/requestrecord/msg_1/change/", {}).status_code == 403
    assert admin_client.get("/admin/records/requestrecord/msg_1/delete/").status_code == 403


def test_a_record_outlives_what_it_names(admin_client: Client, alice: Tenant) -> None:
    make(alice, "msg_1")
    owner = alice.key.organization_id
    alice.key.delete()
    alice.key.organization.delete()
    page = admin_client.get("/admin/records/requestrecord/").content.decode()
    assert "msg_1" in page
    assert owner in page
    detail = admin_client.get("/admin/records/requestrecord/msg_1/change/")
    assert (detail.status_code, owner in detail.content.decode()) == (200, True)
