"""Deleting old records."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import timedelta
from io import StringIO

import pytest
import redis
from django.conf import settings
from django.core.management import CommandError, call_command
from django.utils import timezone

from inference.protocol import keys
from inference.protocol.reports import Settlement
from records import pruning
from records.merging import merge
from records.models import DailyUsage, RequestRecord
from records.pruning import days_ago, prune
from records.store import BAD_REPORTS, store_reports
from records.tasks import prune_records
from tests.quotas.tools import a_settlement

pytestmark = pytest.mark.django_db


def settled(message_id: str, *, days: float) -> None:
    merge([aged(message_id, days=days)])


def aged(message_id: str, *, days: float) -> Settlement:
    created_at = time.time() - days * 86_400
    return a_settlement(message_id, input_tokens=3, output_tokens=5, created_at=created_at)


def ids() -> set[str]:
    return set(RequestRecord.objects.values_list("id", flat=True))


def command(*arguments: str) -> str:
    out = StringIO()
    call_command("prune", *arguments, stdout=out)
    return out.getvalue()


def test_it_works() -> None:
    settled("old", days=91)
    settled("young", days=89)
    assert "1 records of messages from before" in command()
    assert ids() == {"young"}
    assert DailyUsage.objects.count() == 2, "what they come to stays"


def test_all_of_many_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pruning, "BATCH", 3)
    merge([aged(f"msg_{i}", days=10 + i) for i in range(10)])
    assert prune(days_ago(11)) == 9
    assert ids() == {"msg_0"}


def test_it_stops_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    settled("old", days=91)
    assert prune(days_ago(90), for_s=0) == 0


def test_days_and_a_dry_run() -> None:
    settled("old", days=11)
    assert "1 records" in command("--days", "10", "--dry-run")
    assert "would be deleted" in command("--days", "10", "--dry-run")
    assert ids() == {"old"}
    command("--days", "10")
    assert ids() == set()


@pytest.mark.parametrize("days", ["0", "-1", "x", "1.5", "40000", "9" * 5000])
def test_it_rejects_days_that_are_none(days: str) -> None:
    with pytest.raises(CommandError, match="expected a whole number from 1 to 36500"):
        command("--days", days)


def test_nothing_costs_one_query(django_assert_num_queries: pytest.FixtureRequest) -> None:
    settled("young", days=1)
    with django_assert_num_queries(1):  # type: ignore[operator]
        prune_records()


def test_the_task_keeps_what_it_should(monkeypatch: pytest.MonkeyPatch) -> None:
    settled("old", days=91)
    monkeypatch.setattr(settings, "SLUICE", replace(settings.SLUICE, records_keep_days=0))
    prune_records()
    assert ids() == {"old"}
    assert "keeps all records" in command()
    monkeypatch.setattr(settings, "SLUICE", replace(settings.SLUICE, records_keep_days=30))
    prune_records()
    assert ids() == set()


class TestLateReports:
    """A report of a message whose record is gone would be counted a second time."""

    def test_it_is_set_aside(self, store: redis.Redis, caplog: pytest.LogCaptureFixture) -> None:
        settled("old", days=91)
        settled("older", days=100)
        prune(days_ago(90))
        store.sadd(keys.MODELS, "m")
        for report in (aged("old", days=91), aged("young", days=1)):
            store.xadd(keys.settlements("m"), {"r": report.encode()}, id=f"{report.id == 'young':d}-1")
        assert store_reports(store) == 2
        assert ids() == {"young"}
        assert sum(DailyUsage.objects.values_list("requests", flat=True)) == 3
        assert store.xlen(BAD_REPORTS) == 1
        assert "pruned" in caplog.text

    def test_a_shorter_time_by_hand_is_remembered(self) -> None:
        settled("old", days=20)
        prune(days_ago(10))
        prune(days_ago(90))
        assert merge([aged("old", days=20)]) == {"old"}
        assert DailyUsage.objects.get().requests == 1

    def test_nothing_is_too_late_before_anything_was_pruned(self) -> None:
        settled("old", days=500)
        assert ids() == {"old"}
        assert RequestRecord.objects.get().created_at < timezone.now() - timedelta(days=499)
