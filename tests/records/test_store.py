"""From reports to rows."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
import redis
from django.db import DatabaseError

from inference.protocol import keys
from inference.protocol.reports import Delivery, Settlement
from records import store as record_store
from records.models import RequestRecord
from records.store import SETTLE_DELAY_MS, merge, store_reports
from tests.conftest import Tenant

pytestmark = pytest.mark.django_db


@pytest.fixture
def settlement(alice: Tenant) -> Settlement:
    return Settlement(
        id="msg_1", organization=alice.key.organization_id, key=alice.key.id, model="m", created_at=1.0,
        input_tokens=3, outcome="max_tokens", output_tokens=5, attempts=1, worker="w", finished_at=2.0, queue_ms=1.0,
        prefill_ms=20.0, generation_ms=100.0,
    )  # fmt: skip


@pytest.fixture
def delivery(settlement: Settlement) -> Delivery:
    return Delivery(
        id="msg_1", organization=settlement.organization, key=settlement.key, model="m", created_at=1.0,
        input_tokens=3, gateway="g", streamed=True, ttft_ms=30.0, stream_ms=80.0, tbt_p99_ms=25.0, total_ms=120.0,
        bytes_sent=999, stages={"auth_ms": 0.1},
    )  # fmt: skip


def settle(store: redis.Redis, settlement: Settlement, *, age_ms: int = SETTLE_DELAY_MS + 50) -> None:
    store.sadd(keys.MODELS, "m")
    store.xadd(keys.settlements("m"), {"r": settlement.encode()}, id=f"{int(time.time() * 1000) - age_ms}-0")


def test_it_works(store: redis.Redis, settlement: Settlement, delivery: Delivery) -> None:
    settle(store, settlement)
    store.xadd(keys.DELIVERIES, {"r": delivery.encode()})
    assert store_reports(store) == 2
    record = RequestRecord.objects.get()
    assert (record.id, record.outcome, record.output_tokens, record.ttft_ms) == ("msg_1", "max_tokens", 5, 30.0)
    assert record.tpot_ms == 20.0
    assert store.xlen(keys.settlements("m")) == store.xlen(keys.DELIVERIES) == 0


@pytest.mark.parametrize("order", [("settlement", "delivery"), ("delivery", "settlement")])
def test_either_half_may_come_first_and_twice(
    order: tuple[str, str], settlement: Settlement, delivery: Delivery
) -> None:
    halves = {"settlement": settlement, "delivery": delivery}
    for name in (*order, *order):
        merge([halves[name]])
    record = RequestRecord.objects.get()
    assert (record.outcome, record.attempts, record.total_ms, record.stages) == (
        "max_tokens", 1, 120.0, {"auth_ms": 0.1},
    )  # fmt: skip


def test_a_fresh_settlement_waits_for_its_delivery(store: redis.Redis, settlement: Settlement) -> None:
    settle(store, settlement, age_ms=0)
    assert store_reports(store) == 0
    assert not RequestRecord.objects.exists()


def test_many_rows_are_written_at_once(
    settlement: Settlement, django_assert_max_num_queries: pytest.FixtureRequest
) -> None:
    reports = [replace(settlement, id=f"msg_{i}") for i in range(300)]
    with django_assert_max_num_queries(12):  # type: ignore[operator]  # SQLite splits by parameters; not one a row
        merge(reports)
    assert RequestRecord.objects.count() == 300


def test_nothing_is_lost_while_the_database_is_away(
    store: redis.Redis, settlement: Settlement, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(store, settlement)

    def fail(reports: object) -> None:
        raise DatabaseError("away")

    with monkeypatch.context() as patch:
        patch.setattr(record_store, "merge", fail)
        with pytest.raises(DatabaseError):
            store_reports(store)
    assert store_reports(store) == 1
    assert RequestRecord.objects.count() == 1
