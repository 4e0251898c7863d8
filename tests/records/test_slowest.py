"""The slowest requests."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from records import slowest
from records.models import RequestRecord
from records.slowest import slowest_of
from tests.conftest import Tenant

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 1, 1, 10, tzinfo=UTC)
SINCE = (NOW - timedelta(hours=1)).timestamp()


@pytest.fixture(params=["few", "many"], autouse=True)
def either_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """By either index."""
    if request.param == "many":
        monkeypatch.setattr(slowest, "FEW", 0)


def record(tenant: Tenant, message_id: str, ttft_ms: float | None, **facts: Any) -> None:
    usual = {"organization": tenant.key.organization, "key": tenant.key, "model": "m", "created_at": NOW,
             "input_tokens": 3}  # fmt: skip
    RequestRecord.objects.create(id=message_id, ttft_ms=ttft_ms, **usual | facts)


def test_it_works(alice: Tenant) -> None:
    for number in range(15):
        record(alice, f"msg_{number:02}", 10.0 * number)
    record(alice, "msg_unread", None)
    record(alice, "msg_before", 9999, created_at=NOW - timedelta(hours=2))
    assert [found.pk for found in slowest_of(SINCE)] == [f"msg_{number:02}" for number in range(14, 4, -1)]


def test_of_one_model_and_one_organisation(alice: Tenant, charlie: Tenant) -> None:
    record(alice, "msg_1", 10)
    record(alice, "msg_2", 20, model="large")
    record(charlie, "msg_3", 30)
    owner = alice.key.organization_id
    assert [found.pk for found in slowest_of(SINCE, model="m")] == ["msg_3", "msg_1"]
    assert [found.pk for found in slowest_of(SINCE, organization=owner)] == ["msg_2", "msg_1"]
    assert [found.pk for found in slowest_of(SINCE, model="large", organization=owner)] == ["msg_2"]


@pytest.mark.skipif(connection.vendor != "sqlite", reason="of SQLite's plans")
@pytest.mark.parametrize("asked", [{}, {"model": "m"}, {"organization": "org_1"}])
def test_many_are_read_by_their_times(asked: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slowest, "FEW", -1)
    with CaptureQueriesContext(connection) as queries:
        slowest_of(SINCE, **asked)
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN QUERY PLAN {queries[-1]['sql']}")
        assert any("record_by_ttft" in row[3] for row in cursor.fetchall())
