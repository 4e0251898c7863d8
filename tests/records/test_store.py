"""From reports to rows."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest
import redis
from django.db import DatabaseError, DataError, connection
from django.test.utils import CaptureQueriesContext

from inference.protocol import keys
from inference.protocol.reports import Delivery, Report, Settlement
from records import store as record_store
from records.merging import merge
from records.models import RequestRecord
from records.store import BAD_REPORTS, SETTLE_DELAY_MS, store_reports
from tests.conftest import Tenant
from tests.inference.tools import entries_of

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
        input_tokens=3, reader="req_1", gateway="g", streamed=True, ttft_ms=30.0, stream_ms=80.0, tbt_p99_ms=25.0,
        total_ms=120.0, bytes_sent=999, stages={"auth_ms": 0.1},
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


def test_what_safety_did_is_on_record(settlement: Settlement) -> None:
    merge([replace(settlement, checks={"patterns": 0.4}, held_tokens=3, held_ms=1.5)])
    record = RequestRecord.objects.get()
    assert (record.checks, record.held_tokens, record.held_ms) == ({"patterns": 0.4}, 3, 1.5)


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
    with django_assert_max_num_queries(16):  # type: ignore[operator]  # SQLite splits by parameters; not one a row
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


def test_both_halves_are_committed_at_once(store: redis.Redis, settlement: Settlement, delivery: Delivery) -> None:
    settle(store, settlement)
    store.xadd(keys.DELIVERIES, {"r": delivery.encode()})
    with CaptureQueriesContext(connection) as queries:
        store_reports(store)
    first, *kinds, last = [query["sql"].split()[0] for query in queries.captured_queries]
    assert (first, last) == ("SAVEPOINT", "RELEASE")
    writes = [kind for kind in kinds if kind != "SELECT"]
    assert writes == ["INSERT", "INSERT"], "no transaction within"


def test_settlements_wait_for_the_deliveries_of_their_time(
    store: redis.Redis, settlement: Settlement, delivery: Delivery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_store, "BATCH", 2)
    settle(store, settlement)
    for i in (3, 2, 1):
        store.xadd(keys.DELIVERIES, {"r": replace(delivery, id=f"msg_{i}").encode()})
    assert store_reports(store) == 2
    assert set(RequestRecord.objects.values_list("outcome", flat=True)) == {""}
    assert store_reports(store) == 2
    record = RequestRecord.objects.exclude(outcome="").get()
    assert (record.id, record.ttft_ms) == ("msg_1", 30.0)


@pytest.mark.parametrize("blob", [b"\xff", b"null", b"[]", b"{", b'{"id": "msg_9"}'])
def test_what_cannot_be_read_is_set_aside(
    store: redis.Redis, settlement: Settlement, blob: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    store.xadd(keys.DELIVERIES, {"r": blob}, id="7-0")
    settle(store, settlement)
    assert store_reports(store) == 2
    assert store_reports(store) == 0
    assert RequestRecord.objects.get().id == "msg_1"
    ((_, aside),) = entries_of(store, BAD_REPORTS)
    assert (aside[b"r"], aside[b"id"], aside[b"stream"]) == (blob, b"7-0", keys.DELIVERIES.encode())
    assert f"{keys.DELIVERIES} 7-0 of message unknown cannot be read" in caplog.text


@pytest.mark.parametrize(
    "bad", [{"input_tokens": -7654321}, {"output_tokens": 2**80}, {"created_at": 1e30}, {"queue_ms": "x7654321"}]
)
def test_a_row_that_is_refused_does_not_hold_up_the_others(
    store: redis.Redis, settlement: Settlement, bad: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    settle(store, replace(settlement, id="msg_0", **bad))  # type: ignore[arg-type]
    settle(store, settlement, age_ms=SETTLE_DELAY_MS + 20)
    assert store_reports(store) == 2
    assert RequestRecord.objects.get().id == "msg_1"
    assert store.xlen(keys.settlements("m")) == 0
    assert store.xlen(BAD_REPORTS) == 1
    assert "message msg_0 was refused by the database" in caplog.text
    assert "7654321" not in caplog.text, "a reason, but no content"


def test_a_refusal_of_the_whole_batch_is_sorted_out_row_by_row(
    store: redis.Redis, settlement: Settlement, delivery: Delivery, monkeypatch: pytest.MonkeyPatch
) -> None:
    def picky(reports: Sequence[Report]) -> set[str]:
        if any(report.id == "msg_0" for report in reports):
            raise DataError("value too long for type character varying(40)")
        return merge(reports)

    monkeypatch.setattr(record_store, "merge", picky)
    settle(store, replace(settlement, id="msg_0"))
    settle(store, settlement, age_ms=SETTLE_DELAY_MS + 20)
    store.xadd(keys.DELIVERIES, {"r": delivery.encode()})
    assert store_reports(store) == 3
    assert RequestRecord.objects.get().ttft_ms == 30.0
    assert store.xlen(BAD_REPORTS) == 1


def test_nothing_is_set_aside_while_the_database_is_away(
    store: redis.Redis, settlement: Settlement, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails_later(reports: Sequence[Report]) -> None:
        raise DataError("bad") if len(reports) > 1 else DatabaseError("away")

    monkeypatch.setattr(record_store, "merge", fails_later)
    store.xadd(keys.DELIVERIES, {"r": "nonsense"})
    settle(store, settlement)
    settle(store, settlement, age_ms=SETTLE_DELAY_MS + 20)
    with pytest.raises(DatabaseError, match="away"):
        store_reports(store)
    assert (store.xlen(keys.settlements("m")), store.xlen(keys.DELIVERIES), store.xlen(BAD_REPORTS)) == (2, 1, 0)


class TestReaders:
    """A message may have many readers: each tells of itself."""

    @pytest.fixture
    def readers(self, delivery: Delivery) -> list[Delivery]:
        """The first one left early; the next went on where it had been; the third only looked at what had been said."""
        gone = replace(delivery, ttft_ms=30.0, stream_ms=None, total_ms=60.0, bytes_sent=400)
        nothing = replace(delivery, ttft_ms=None, stream_ms=None, tbt_p99_ms=None)
        resumed = replace(nothing, reader="req_0", late_ms=70.0, resumed=True, total_ms=150.0, bytes_sent=600)
        replay = replace(nothing, reader="req_2", late_ms=9000.0, total_ms=9010.0, bytes_sent=1000, gateway="h")
        return [gone, resumed, replay]

    def summary(self) -> tuple[Any, ...]:
        r = RequestRecord.objects.get()
        return r.ttft_ms, r.stream_ms, r.total_ms, r.gateway, r.bytes_sent, r.resumes, r.outcome

    def test_it_works(self, settlement: Settlement, readers: list[Delivery]) -> None:
        merge([settlement, *readers])
        assert self.summary() == (30.0, None, 60.0, "g", 2000, 1, "max_tokens")

    @pytest.mark.parametrize("order", list(permutations(range(3))))
    def test_any_order_and_any_number_of_times_is_the_same(
        self, settlement: Settlement, readers: list[Delivery], order: tuple[int, ...]
    ) -> None:
        for i in order:
            merge([readers[i], readers[order[0]]])
        merge([settlement])
        merge(readers)
        assert self.summary() == (30.0, None, 60.0, "g", 2000, 1, "max_tokens")

    def test_one_of_an_older_gateway_is_a_reader_too(self, delivery: Delivery) -> None:
        body = json.loads(delivery.encode())
        for name in ("reader", "late_ms", "resumed"):
            del body[name]
        merge([Delivery.decode(json.dumps(body))])
        assert RequestRecord.objects.get().bytes_sent == 999

    @pytest.mark.parametrize("bad", [{"resumed": "x"}, {"late_ms": "x"}, {"bytes_sent": 2**80}])
    def test_one_that_is_refused_does_not_hold_up_the_others(
        self, store: redis.Redis, readers: list[Delivery], bad: dict[str, object]
    ) -> None:
        for reader in (readers[0], replace(readers[1], id="msg_0"), replace(readers[2], id="msg_0", **bad)):  # type: ignore[arg-type]
            store.xadd(keys.DELIVERIES, {"r": reader.encode()})
        assert store_reports(store) == 3
        assert set(RequestRecord.objects.values_list("id", "bytes_sent")) == {("msg_1", 400), ("msg_0", 600)}
        assert store.xlen(BAD_REPORTS) == 1
