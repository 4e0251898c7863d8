"""Lists as CSV."""

from __future__ import annotations

import csv
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from records.admin import export
from records.admin.export import CsvResponse, cell
from records.models import RequestRecord
from tests.conftest import Tenant
from tests.records.test_admin import LIST, USAGE, make, use

pytestmark = pytest.mark.django_db


def rows_of(client: Client, path: str) -> list[dict[str, str]]:
    r: Any = client.get(path)
    assert (r.status_code, r["content-type"]) == (200, "text/csv; charset=utf-8")
    return list(csv.DictReader(b"".join(r.streaming_content).decode().splitlines()))


def test_it_works(admin_client: Client, alice: Tenant) -> None:
    make(alice, "msg_1", created_at=datetime(2026, 3, 1, 12, tzinfo=UTC))
    (row,) = rows_of(admin_client, f"{LIST}export/")
    assert (row["id"], row["created_at"], row["organization_name"]) == ("msg_1", "2026-03-01T12:00:00+00:00", "alpha")
    assert (row["key_name"], row["output_tokens"], row["tpot_ms"], row["finished_at"]) == ("alice", "5", "20.0", "")


def test_usage_too(admin_client: Client, alice: Tenant) -> None:
    use(alice)
    (row,) = rows_of(admin_client, f"{USAGE}export/")
    assert (row["organization_id"], row["requests"]) == (alice.key.organization_id, "7")


def test_it_has_the_filters_of_the_page(admin_client: Client, alice: Tenant) -> None:
    make(alice, "msg_1")
    make(alice, "msg_2", outcome="error")
    page = admin_client.get(f"{LIST}?outcome__exact=error&o=1&p=1")
    assert [row["id"] for row in rows_of(admin_client, page.context["export_url"])] == ["msg_2"]
    assert admin_client.get(f"{LIST}export/?created_at__year=x").status_code == 302


def test_it_reads_bit_by_bit(admin_client: Client, alice: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "BATCH", 10)
    now = timezone.now()
    for number in range(25):
        make(alice, f"msg_{number:02}", created_at=now - timedelta(hours=number // 12))  # some at the same moment
    with CaptureQueriesContext(connection) as queries:
        found = [row["id"] for row in rows_of(admin_client, f"{LIST}export/")]
    assert found == list(RequestRecord.objects.values_list("id", flat=True))
    assert sum("LIMIT 10" in query["sql"] for query in queries.captured_queries) >= 3


def test_it_is_read_bit_by_bit_in_asgi_too(alice: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "BATCH", 2)
    for number in range(5):
        make(alice, f"msg_{number}")
    response = CsvResponse("x.csv", RequestRecord.objects.all(), ("id",), moment="created_at")

    async def parts() -> list[bytes]:
        return [part async for part in response]

    assert async_to_sync(parts)() == [b"id\r\n", b"msg_4\r\nmsg_3\r\n", b"msg_2\r\nmsg_1\r\n", b"msg_0\r\n"]


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@x", "\tx", "\rx", "\nx"])
def test_no_cell_is_a_formula(text: str) -> None:
    assert cell(text) == f"'{text}"


@pytest.mark.parametrize(("value", "text"), [(-1, "-1"), (None, ""), ("a=b", "a=b"), (True, "True"), (0.5, "0.5")])
def test_other_cells_stay_as_they_are(value: object, text: str) -> None:
    assert cell(value) == text


def test_it_takes_permission(client: Client, alice: Tenant) -> None:
    make(alice, "msg_1")
    user = User.objects.create_user("dave", is_staff=True)
    assert client.get(f"{LIST}export/").status_code == 302, "to the login"
    client.force_login(user)
    assert client.get(f"{LIST}export/").status_code == 403
    user.user_permissions.add(Permission.objects.get(codename="view_requestrecord"))
    assert len(rows_of(client, f"{LIST}export/")) == 1
    assert client.get(f"{USAGE}export/").status_code == 403
