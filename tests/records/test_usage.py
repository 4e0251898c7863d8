"""Sums by day, which are what the records come to."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connection
from django.db.models import Count, Sum
from django.db.models.functions import TruncDate
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from inference.protocol.reports import Delivery, Report, Settlement
from records.merging import merge
from records.models import DailyUsage, RequestRecord
from tests.quotas.tools import a_settlement

MIDNIGHT = datetime(2026, 3, 1, tzinfo=UTC).timestamp()


def kept() -> set[tuple[Any, ...]]:
    names = ("day", "organization_id", "key_id", "model", "outcome")
    return set(DailyUsage.objects.values_list(*names, "requests", "input_tokens", "cached_tokens", "output_tokens"))


def summed_up() -> set[tuple[Any, ...]]:
    """What is kept has to be this."""
    rows = RequestRecord.objects.exclude(outcome="").order_by().annotate(day=TruncDate("created_at", tzinfo=UTC))
    groups = rows.values_list("day", "organization_id", "key_id", "model", "outcome").annotate(requests=Count("id"))
    return set(groups.annotate(Sum("input_tokens"), Sum("cached_tokens"), Sum("output_tokens")))


def a_delivery(settlement: Settlement) -> Delivery:
    return Delivery(
        id=settlement.id, organization=settlement.organization, key=settlement.key, model=settlement.model,
        created_at=settlement.created_at, input_tokens=settlement.input_tokens, reader="req_1", gateway="g",
        streamed=True, ttft_ms=1.0, stream_ms=1.0, tbt_p99_ms=1.0, total_ms=1.0, bytes_sent=9,
    )  # fmt: skip


@st.composite
def settlements(draw: st.DrawFn) -> Settlement:
    """Settlements of a few messages, some of the same one, which then differ in what a worker found."""
    number = draw(st.integers(0, 5))
    return a_settlement(
        f"msg_{number}", input_tokens=number, output_tokens=draw(st.integers(0, 3)), model=f"m{number % 2}",
        key=f"key_{number % 3}", outcome=draw(st.sampled_from(["end_turn", "error"])),
        created_at=MIDNIGHT + number - 3, cached_tokens=draw(st.integers(0, 2)),
    )  # fmt: skip


reports = settlements().flatmap(lambda s: st.sampled_from([s, a_delivery(s)]))


class TestInAnyOrder(TestCase):
    """Whatever comes, in whatever batches."""

    @settings(max_examples=50)
    @given(batches=st.lists(st.lists(reports, max_size=8), max_size=5))
    def test_the_sums_are_those_of_the_records(self, batches: list[list[Report]]) -> None:
        for batch in batches:
            merge(batch)
            assert kept() == summed_up()


@pytest.mark.django_db
class TestDailyUsage:
    """What one message adds."""

    def test_it_works(self) -> None:
        merge([a_settlement("msg_1", input_tokens=3, output_tokens=5, cached_tokens=2, created_at=MIDNIGHT)])
        day = datetime(2026, 3, 1).date()  # noqa: DTZ001
        assert kept() == {(day, "org_1", "key_1", "m", "end_turn", 1, 3, 2, 5)}

    def test_it_counts_once_what_comes_twice(self) -> None:
        for _ in range(2):
            merge([a_settlement("msg_1", input_tokens=3, output_tokens=5)] * 2)
        assert DailyUsage.objects.get().requests == 1

    def test_a_later_account_takes_the_place_of_the_first(self) -> None:
        merge([a_settlement("msg_1", input_tokens=3, output_tokens=5)])
        merge([a_settlement("msg_1", input_tokens=3, output_tokens=1, outcome="error")])
        row = DailyUsage.objects.get()
        assert (row.outcome, row.requests, row.output_tokens) == ("error", 1, 1)

    def test_a_delivery_alone_is_not_counted(self) -> None:
        merge([a_delivery(a_settlement("msg_1", input_tokens=3, output_tokens=5))])
        assert not DailyUsage.objects.exists()


@pytest.mark.django_db(transaction=True)
@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite lets in one at a time")
def test_many_at_once_count_once() -> None:
    batches = [
        [a_settlement(f"msg_{i}", input_tokens=i, output_tokens=round, created_at=MIDNIGHT + i - 20) for i in range(40)]
        for round in range(3)
    ]

    def work(number: int) -> None:
        try:
            for batch in batches[number % 3 :]:
                merge([*batch, *map(a_delivery, batch)][:: (-1) ** number])
        finally:
            connection.close()

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(work, range(6)))
    assert RequestRecord.objects.count() == 40
    assert kept() == summed_up()
