"""The chart of triggers over time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from records.models import SafetyTrigger
from records.rates import HEIGHT, OTHERS, SHOWN, WIDTH, Span, chart_of

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 3, 31, 12, 30, tzinfo=UTC)


def find(moment: datetime, category: str = "secrets.jwt", times: int = 1) -> None:
    first = SafetyTrigger.objects.count()
    SafetyTrigger.objects.bulk_create(
        SafetyTrigger(
            id=str(number), record_id="msg_1", category=category, check_name="patterns", action="flag", side="output",
            position=0, score=1, found_at=moment, hour=int(moment.timestamp()) // 3600,
        )
        for number in range(first, first + times)
    )  # fmt: skip


class TestSpans:
    @pytest.mark.parametrize(
        ("length", "bars", "hours"),
        [
            (timedelta(hours=1), 2, 1),
            (timedelta(days=7), 7 * 24 + 1, 1),
            (timedelta(days=30), 31, 24),
            (timedelta(days=9999), 366, 24),
            (timedelta(), 1, 1),
        ],
    )
    def test_short_ones_are_by_the_hour(self, length: timedelta, bars: int, hours: int) -> None:
        span = Span.between(NOW - length, NOW)
        assert (span.bars, span.hours) == (bars, hours)
        assert span.title_of(span.bars - 1).startswith("2026-03-31")

    def test_a_day_has_24_bars(self) -> None:
        day = datetime(2026, 3, 1, tzinfo=UTC)
        span = Span.between(day, day + timedelta(days=1))
        assert (span.bars, span.title_of(0), span.title_of(23)) == (24, "2026-03-01 00:00", "2026-03-01 23:00")


def test_it_works() -> None:
    find(NOW, times=3)
    find(NOW, "toxicity")
    find(NOW - timedelta(hours=23), "toxicity")
    chart = chart_of(SafetyTrigger.objects.all(), Span.between(NOW - timedelta(hours=23), NOW))
    assert (chart.total, chart.highest) == (5, 4)
    assert chart.legend == [("secrets.jwt", 3), ("toxicity", 2)]
    assert [bar.title for bar in sorted(chart.bars, key=lambda bar: (bar.x, bar.colour))] == [
        "2026-03-30 13:00 toxicity: 1", "2026-03-31 12:00 secrets.jwt: 3", "2026-03-31 12:00 toxicity: 1",
    ]  # fmt: skip
    assert sum(bar.height for bar in chart.bars if "03-31" in bar.title) == HEIGHT
    assert all(0 <= bar.x < bar.x + bar.width <= WIDTH for bar in chart.bars)


def test_nothing_makes_an_empty_chart() -> None:
    chart = chart_of(SafetyTrigger.objects.all(), Span.between(NOW, NOW))
    assert (chart.bars, chart.legend, chart.total) == ([], [], 0)


def test_what_is_outside_is_left_out() -> None:
    for moment in (NOW - timedelta(days=3), NOW + timedelta(hours=1)):
        find(moment)
    assert chart_of(SafetyTrigger.objects.all(), Span.between(NOW - timedelta(days=1), NOW)).total == 0


def test_many_categories_are_put_together() -> None:
    for number in range(SHOWN + 2):
        find(NOW, f"c{number}", times=20 - number)
    chart = chart_of(SafetyTrigger.objects.all(), Span.between(NOW, NOW))
    assert [name for name, _ in chart.legend] == [*(f"c{number}" for number in range(SHOWN)), OTHERS]
    assert chart.legend[-1] == (OTHERS, 13 + 12)
    assert max(bar.colour for bar in chart.bars) == SHOWN


def test_it_is_read_from_an_index() -> None:
    with CaptureQueriesContext(connection) as queries:
        chart_of(SafetyTrigger.objects.all(), Span.between(NOW, NOW))
    ((query),) = queries.captured_queries
    plan = connection.cursor().execute(f"EXPLAIN QUERY PLAN {query['sql']}") if connection.vendor == "sqlite" else None
    if plan is not None:
        assert "COVERING INDEX trigger_rate" in str(plan.fetchall())
