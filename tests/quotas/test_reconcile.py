"""What was counted against the records."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import date, datetime
from typing import cast

import pytest
import redis
from django.conf import settings

from inference.protocol import keys, quotas
from inference.protocol.quotas import Period, accounting
from inference.protocol.reports import Settlement
from quotas.ledger import used_before, used_by_minute
from quotas.reconcile import COMPARED, FIRST_MINUTES, forget_old_periods, reconcile
from records.merging import merge
from records.pruning import days_ago, prune
from records.store import store_reports
from tests.conftest import Tenant
from tests.quotas.tools import a_settlement

pytestmark = pytest.mark.django_db

Make = Callable[..., Settlement]


@pytest.fixture
def used(alice: Tenant) -> Make:
    """Make an account of Alice's; the minutes before the last are those that are compared by default."""

    def make(message_id: str, tokens: int, *, minutes_ago: int = 0, tenant: Tenant = alice) -> Settlement:
        return a_settlement(
            message_id, input_tokens=1, output_tokens=tokens - 1, created_at=time.time() - 60.0 * minutes_ago,
            organization=tenant.key.organization_id, key=tenant.key.id,
        )  # fmt: skip

    return make


def today() -> Period:
    return Period.of(time.time())


def count(store: redis.Redis, settlement: Settlement, pen: int = 1) -> None:
    script, names, arguments = accounting(settlement, pen=pen)
    store.eval(script, len(names), *names, *arguments)


def total(store: redis.Redis, tenant: Tenant, what: str = "total", *, all_keys: bool = False) -> int:
    organization = tenant.key.organization_id
    subject = organization if all_keys else tenant.key.id
    return int(cast(bytes, store.hget(quotas.spent(organization), f"{subject}|{what}") or b"0"))


def run(store: redis.Redis) -> int | None:
    """Reconcile after quiet, when all minutes can be compared."""
    return reconcile(store, settings.SLUICE, until=today().minute + 2)


def counted(store: redis.Redis, name: str) -> int:
    return int(cast(bytes, store.hget(keys.COUNTS, name) or b"0"))


def test_it_works(store: redis.Redis, alice: Tenant, bob: Tenant, used: Make) -> None:
    accounts = [used("a", 10), used("b", 20, minutes_ago=3), used("c", 30, tenant=bob)]
    for account in accounts:
        count(store, account)
    merge(accounts)
    assert run(store) == 0
    assert (total(store, alice), total(store, bob)) == (30, 30)
    assert total(store, alice, all_keys=True) == 60
    assert counted(store, "quota_checks_total|ok") == 1
    assert counted(store, "quota_drift_tokens_total") == 0


def test_what_was_lost_is_put_back_once_and_told(store: redis.Redis, alice: Tenant, used: Make) -> None:
    count(store, used("a", 10))
    merge([used("a", 10), used("lost", 20)])
    assert run(store) == 20
    assert [total(store, alice, what) for what in (f"d{today().day}", f"m{today().month}", "total")] == [30, 30, 30]
    assert counted(store, "quota_drift_tokens_total") == 20
    store.delete(COMPARED)
    assert run(store) == 0
    assert total(store, alice, all_keys=True) == 30


def test_what_has_no_record_is_taken_off(store: redis.Redis, alice: Tenant, used: Make) -> None:
    count(store, used("a", 10))
    count(store, used("never recorded", 20, minutes_ago=1))
    merge([used("a", 10)])
    assert run(store) == 20
    assert total(store, alice) == 10


def test_two_at_once_put_it_right_once(store: redis.Redis, alice: Tenant, used: Make) -> None:
    count(store, used("a", 10))
    merge([used("a", 10), used("lost", 20)])
    run(store)
    before = total(store, alice)
    store.set(COMPARED, today().minute - 5)  # as the other one still sees it
    assert run(store) == 0
    assert total(store, alice) == before


def test_what_may_still_run_is_left_alone(store: redis.Redis, alice: Tenant, used: Make) -> None:
    reconcile(store, settings.SLUICE)
    merge([used("recorded before it is counted", 10, minutes_ago=2)])
    assert reconcile(store, settings.SLUICE) == 0
    assert total(store, alice) == 0


def test_minutes_are_compared_once(store: redis.Redis, used: Make) -> None:
    run(store)
    merge([used("late", 10, minutes_ago=5)])
    assert run(store) == 0


def test_records_that_are_behind_are_waited_for(store: redis.Redis, alice: Tenant, used: Make) -> None:
    settlement = used("a", 10)
    count(store, settlement)
    store.sadd(keys.MODELS, "m")
    store.xadd(keys.settlements("m"), {"r": settlement.encode()}, id=f"{int(time.time() - 61) * 1000}-0")
    assert run(store) is None
    assert counted(store, "quota_checks_total|behind") == 1
    store_reports(store)
    assert run(store) == 0
    assert total(store, alice) == 10


def test_a_second_account_replaces_the_first_here_and_there(store: redis.Redis, alice: Tenant, used: Make) -> None:
    for tokens, pen in ((30, 1), (12, 2)):
        count(store, used("a", tokens), pen=pen)
        merge([used("a", tokens)])
    assert run(store) == 0
    assert total(store, alice) == 12


class TestSeeding:
    """A Redis that knows nothing of what was used before."""

    def test_it_is_told_once(self, store: redis.Redis, alice: Tenant, used: Make) -> None:
        old = used("old", 100, minutes_ago=70 * 24 * 60)
        merge([old, used("before", 40, minutes_ago=FIRST_MINUTES + 30), used("now", 10, minutes_ago=20)])
        assert run(store) == 10, "the last hour is compared, what came before is added"
        assert total(store, alice) == total(store, alice, all_keys=True) == 150
        store.delete(COMPARED)
        run(store)
        assert total(store, alice) == 150

    def test_what_is_pruned_counts_on(self, store: redis.Redis, alice: Tenant, used: Make) -> None:
        merge([used("old", 100, minutes_ago=70 * 24 * 60), used("now", 10)])
        prune(days_ago(30))
        assert run(store) == 10
        assert total(store, alice) == total(store, alice, all_keys=True) == 110

    def test_what_was_counted_meanwhile_is_not_counted_again(
        self, store: redis.Redis, alice: Tenant, used: Make
    ) -> None:
        merge([used("old", 100, minutes_ago=70 * 24 * 60), used("now", 10)])
        count(store, used("now", 10))
        run(store)
        assert total(store, alice) == 110

    def test_neither_where_nobody_looked_for_long(self, store: redis.Redis, alice: Tenant, used: Make) -> None:
        merge([used("old", 100, minutes_ago=24 * 60), used("counted", 10, minutes_ago=180)])
        count(store, used("counted", 10, minutes_ago=180))
        store.hset(quotas.spent(alice.key.organization_id), "since", today().minute - 181)
        run(store)
        assert total(store, alice) == 110

    def test_only_this_day_and_month_are_looked_at(self, store: redis.Redis, alice: Tenant, used: Make) -> None:
        merge([used("old", 100, minutes_ago=70 * 24 * 60)])
        run(store)
        assert total(store, alice, f"m{today().month}") == total(store, alice, f"d{today().day}") == 0

    @pytest.mark.parametrize("since", [date.min, date(2026, 1, 31), date(2026, 2, 1)])
    @pytest.mark.parametrize("until", ["2026-02-01T00:00", "2026-02-01T07:30", "2026-01-31T23:59"])
    def test_whole_days_and_a_begun_one(self, alice: Tenant, used: Make, since: date, until: str) -> None:
        moments = ["2026-01-30T23:59", "2026-01-31T12:00", "2026-02-01T00:00", "2026-02-01T08:00"]
        for number, moment in enumerate(moments):
            at = datetime.fromisoformat(f"{moment}Z").timestamp()
            merge([replace(used(moment, 10**number), created_at=at)])
        wanted = [10**i for i, moment in enumerate(moments) if str(since) <= moment and moment < until]
        found = used_before(alice.key.organization_id, datetime.fromisoformat(f"{until}Z"), since=since)
        assert found[alice.key.id] == found[alice.key.organization_id] == sum(wanted)


def test_sums_of_old_periods_are_dropped(store: redis.Redis, alice: Tenant) -> None:
    name, now = quotas.spent(alice.key.organization_id), today()
    kept = {f"k|d{now.day}", f"k|d{now.day - 1}", f"k|m{now.month}", "k|total", "k|requests", "since"}
    for field in (*kept, f"k|d{now.day - 2}", "k|m202001"):
        store.hset(name, field, "1 2 3" if field == "k|requests" else "1")
    forget_old_periods(store)
    assert {field.decode() for field in cast(list[bytes], store.hkeys(name))} == kept


def test_the_ledger_leaves_out_what_has_not_ended(alice: Tenant, used: Make) -> None:
    running = replace(used("running", 10), outcome="")  # type: ignore[arg-type]  # as a delivery alone leaves it
    merge([used("a", 10), running])
    found = used_by_minute(*(datetime.fromisoformat(f"{year}-01-01T00:00Z") for year in (2020, 2100)))
    (minutes,) = found.values()
    assert [dict(counts) for counts in minutes.values()] == [{alice.key.id: 10, alice.key.organization_id: 10}]
    assert json.loads(running.encode())["outcome"] == ""
