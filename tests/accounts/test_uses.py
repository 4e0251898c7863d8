"""When keys were last used."""

from __future__ import annotations

import time

import pytest
import redis

from accounts import uses
from accounts.models import ApiKey
from accounts.tasks import store_last_uses
from accounts.uses import USED, Uses, gather, store_uses
from tests.conftest import Tenant

pytestmark = pytest.mark.django_db


def last_use(tenant: Tenant) -> float | None:
    used = ApiKey.objects.get(pk=tenant.key.pk).last_used_at
    return used.timestamp() if used else None


def test_it_works(store: redis.Redis, alice: Tenant, bob: Tenant) -> None:
    seen = Uses()
    seen.note(alice.key.pk)
    gather(store, seen)
    store_last_uses()
    assert last_use(alice) == pytest.approx(time.time(), abs=10)
    assert last_use(bob) is None
    assert not store.exists(USED)


def test_the_last_one_counts_whoever_tells_first(store: redis.Redis, alice: Tenant) -> None:
    for at in (2000.0, 1000.0):
        store.zadd(USED, {alice.key.pk: at}, gt=True)
    store_uses(store)
    store.zadd(USED, {alice.key.pk: 1500.0})
    store_uses(store)
    assert last_use(alice) == 2000.0


def test_only_the_time_is_written(store: redis.Redis, alice: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    bulk_update = ApiKey.objects.bulk_update

    def with_a_change_between(keys: list[ApiKey], fields: list[str], **more: int) -> int:
        ApiKey.objects.update(name="renamed")
        return bulk_update(keys, fields, **more)

    monkeypatch.setattr(ApiKey.objects, "bulk_update", with_a_change_between)
    store.zadd(USED, {alice.key.pk: 1000.0})
    store_uses(store)
    assert ApiKey.objects.get(pk=alice.key.pk).name == "renamed"


def test_while_the_database_is_away_they_wait(
    store: redis.Redis, alice: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(used: object) -> None:
        raise OSError("away")

    store.zadd(USED, {alice.key.pk: 1000.0})
    with monkeypatch.context() as patch:
        patch.setattr(uses, "_store", fail)
        with pytest.raises(OSError, match="away"):
            store_uses(store)
    assert store_uses(store) == 1
    assert last_use(alice) == 1000.0


def test_an_unknown_key_is_dropped(store: redis.Redis) -> None:
    store.zadd(USED, {"key_nobody": 1000.0})
    assert store_uses(store) == 1
    assert not store.exists(USED)


def test_while_redis_is_away_they_wait(alice: Tenant) -> None:
    seen = Uses()
    seen.note(alice.key.pk)
    with pytest.raises(redis.ConnectionError):
        gather(redis.Redis.from_url("unix:///nowhere", retry=None), seen)
    assert list(seen.take()) == [alice.key.pk]
