"""From triggers in Redis to rows, and out again."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

import pytest
import redis
from django.conf import settings
from django.db import DatabaseError
from django.utils import timezone

from inference.protocol import keys
from inference.protocol.reports import Trigger
from records import trigger_store
from records.models import SafetyTrigger
from records.pruning import days_ago
from records.store import BAD_REPORTS
from records.tasks import prune_safety_triggers
from records.trigger_pruning import prune_triggers
from records.trigger_store import store_triggers
from tests.conftest import Tenant
from tests.records.test_pruning import command

pytestmark = pytest.mark.django_db

COUNT = "safety_triggers_total|patterns|secrets.jwt|enforce"


def a_trigger(**facts: Any) -> Trigger:
    usual: dict[str, Any] = {
        "message": "msg_1", "organization": "org_1", "key": "key_1", "model": "m", "policy": "strict",
        "check": "patterns", "category": "secrets.jwt", "action": "enforce", "side": "output", "position": 7,
        "score": 1.0, "span": "0a1b", "found_at": time.time(),
    }  # fmt: skip
    return Trigger(**usual | facts)


def tell(store: redis.Redis, *triggers: Trigger) -> None:
    for trigger in triggers:
        store.sadd(keys.MODELS, trigger.model)
        store.xadd(keys.triggers(trigger.model), {"r": trigger.encode()})


def counted(store: redis.Redis, name: str = COUNT) -> int:
    return int(cast(bytes, store.hget(keys.COUNTS, name) or b"0"))


def test_it_works(store: redis.Redis, alice: Tenant) -> None:
    tell(store, a_trigger(organization=alice.key.organization_id, key=alice.key.pk))
    assert store_triggers(store) == 1
    row = SafetyTrigger.objects.get()
    assert (row.pk, row.record_id) == ("msg_1:patterns:output:7", "msg_1")
    assert (row.organization, row.key) == (alice.key.organization, alice.key)
    assert (row.policy, row.check_name, row.category, row.action) == ("strict", "patterns", "secrets.jwt", "enforce")
    assert (row.side, row.position, row.score, row.span) == ("output", 7, 1.0, "0a1b")
    assert abs(row.found_at - timezone.now()) < timedelta(seconds=5)
    assert (row.text, row.text_until) == ("", None)
    assert store.xlen(keys.triggers("m")) == 0


def test_all_models_are_looked_at(store: redis.Redis) -> None:
    tell(store, a_trigger(), a_trigger(model="n", message="msg_2"))
    assert store_triggers(store) == 2


def test_each_is_stored_and_counted_once(store: redis.Redis) -> None:
    for _ in range(2):
        tell(store, a_trigger(), a_trigger(), a_trigger(position=9))
        assert store_triggers(store) == 3
    assert SafetyTrigger.objects.count() == 2
    assert counted(store) == 2
    minute = cast(dict[bytes, bytes], store.hgetall(keys.minute(int(time.time()) // 60)))
    assert json.loads(minute[b"m|org_1"]) == {"triggers": {"secrets.jwt (enforce)": 2}}


def test_each_is_counted_in_the_minute_in_which_it_was_found(store: redis.Redis) -> None:
    now = int(time.time())
    tell(store, a_trigger(found_at=now - 600), a_trigger(message="msg_2", found_at=now - 90_000))
    store_triggers(store)
    minutes = {int(minute) for minute in cast(dict[bytes, bytes], store.hgetall(keys.MINUTES_CHANGED))}
    assert minutes == {now // 60 - 10, now // 60 - 59}, "what was kept from us for long is as early as can be"


def test_a_label_may_hold_what_divides_a_counts_name(store: redis.Redis) -> None:
    tell(store, a_trigger(check="transformer", category="a|b"))
    store_triggers(store)
    assert SafetyTrigger.objects.get().category == "a|b"
    assert counted(store, "safety_triggers_total|transformer|a/b|enforce") == 1


def test_nothing_is_lost_or_counted_while_the_database_is_away(
    store: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell(store, a_trigger())

    def fail() -> None:
        raise DatabaseError("away")

    with monkeypatch.context() as patch:
        patch.setattr(trigger_store, "be_alone", fail)
        with pytest.raises(DatabaseError):
            store_triggers(store)
    assert (store.xlen(keys.triggers("m")), counted(store)) == (1, 0)
    assert store_triggers(store) == 1
    assert (SafetyTrigger.objects.count(), counted(store)) == (1, 1)


def test_what_will_not_do_is_set_aside(store: redis.Redis) -> None:
    tell(store, a_trigger(position=-1), a_trigger(found_at=1e30), a_trigger(score="x"), a_trigger())
    store.xadd(keys.triggers("m"), {"r": b"{"})
    assert store_triggers(store) == 5
    assert SafetyTrigger.objects.get().position == 7
    assert store.xlen(BAD_REPORTS) == 4
    assert counted(store) == 1


def test_all_goes_on_in_a_redis_that_is_full(store: redis.Redis) -> None:
    tell(store, a_trigger(), a_trigger(position=-1))
    store.config_set("maxmemory", 1)
    try:
        assert store_triggers(store) == 2
    finally:
        store.config_set("maxmemory", 0)
    assert (SafetyTrigger.objects.count(), counted(store), store.xlen(BAD_REPORTS)) == (1, 1, 1)
    assert store.xlen(keys.triggers("m")) == 0


class TestTexts:
    def test_none_is_set_aside(self, store: redis.Redis) -> None:
        tell(store, a_trigger(position=-1, text="moron", keep_days=3))
        store.xadd(keys.triggers("m"), {"r": b'{"text": "moron", '})
        store_triggers(store)
        known, unknown = (fields[b"r"] for _, fields in cast(list[Any], store.xrange(BAD_REPORTS)))
        told = Trigger.decode(known)
        assert (told.position, told.text) == (-1, "")
        assert unknown == b""

    def test_one_is_kept_for_its_days(self, store: redis.Redis) -> None:
        tell(store, a_trigger(text="a\0b\ud800", keep_days=3))
        store_triggers(store)
        row = SafetyTrigger.objects.get()
        assert (row.text, row.text_until) == ("a\ufffdb?", row.found_at + timedelta(days=3))
        assert row.visible_text
        assert not row.text_at(row.found_at + timedelta(days=3))

    def test_then_it_is_cleared(self, store: redis.Redis) -> None:
        now = time.time()
        tell(store, a_trigger(text="old", keep_days=1, found_at=now - 90_000))
        tell(store, a_trigger(position=8, text="young", keep_days=1, found_at=now - 80_000))
        store_triggers(store)
        prune_safety_triggers()
        assert sorted(SafetyTrigger.objects.values_list("text", flat=True)) == ["", "young"]

    def test_also_where_records_are_kept_for_ever(self, store: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(settings, "SLUICE", replace(settings.SLUICE, records_keep_days=0))
        tell(store, a_trigger(text="old", keep_days=1, found_at=1.0))
        store_triggers(store)
        prune_safety_triggers()
        assert SafetyTrigger.objects.get().text == ""


class TestPruning:
    def test_old_ones_go(self, store: redis.Redis) -> None:
        days = settings.SLUICE.records_keep_days
        for number, age in enumerate((days + 1, days - 1)):
            tell(store, a_trigger(position=number, found_at=time.time() - age * 86_400))
        store_triggers(store)
        prune_safety_triggers()
        assert SafetyTrigger.objects.get().position == 1
        assert prune_triggers(days_ago(days - 2)) == 1

    def test_by_hand(self, store: redis.Redis) -> None:
        tell(store, a_trigger(found_at=1.0))
        store_triggers(store)
        assert "1 safety triggers" in command("--dry-run")
        assert "1 safety triggers" in command()
        assert not SafetyTrigger.objects.exists()
