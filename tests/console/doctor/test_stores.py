"""The database, Redis, and what waits in it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest
import redis
from django.conf import settings
from django.db import OperationalError
from django.db.migrations.executor import MigrationExecutor
from django.test.utils import override_settings

from console.doctor import stores
from console.doctor.findings import Finding
from inference.protocol import keys
from records.spool import BAD_REPORTS

INFO: dict[str, Any] = {
    "redis_version": "7.2.4", "maxmemory_policy": "noeviction", "used_memory": 10_000_000, "maxmemory": 0,
    "total_system_memory": 10**10, "aof_enabled": 1, "aof_last_write_status": "ok",
}  # fmt: skip


def by_name(found: list[Finding]) -> dict[str, str]:
    return {finding.name: finding.status for finding in found}


class TestDatabase:
    def test_it_works(self, db: None) -> None:
        assert by_name(list(stores.database())) == {"database": "ok"}

    def test_one_of_an_older_version_fails(self, db: None) -> None:
        with patch.object(MigrationExecutor, "migration_plan", lambda *_: [1, 2]):
            (found,) = stores.database()
        assert (found.status, found.text) == ("fail", "It lacks 2 migrations.")
        assert "manage.py migrate" in found.advice

    def test_an_empty_one_is_told_of(self, db: None) -> None:
        with patch("django.db.connection.introspection.table_names", lambda *_: []):
            (found,) = stores.database()
        assert found.status == "warn"

    def test_one_that_does_not_answer_fails(self, db: None) -> None:
        with patch.object(stores, "MigrationExecutor", side_effect=OperationalError("no\nroute")):
            (found,) = stores.database()
        assert (found.status, found.text) == ("fail", "It does not answer: no route")


class TestRedis:
    def test_it_works(self, store: redis.Redis) -> None:
        assert stores.redis_answers() == ""
        found = by_name(list(stores.redis_server()))
        assert found == {"redis": "ok", "redis memory": "ok", "redis file": "ok", "redis clock": "ok"}

    @pytest.mark.parametrize(
        ("changes", "name", "status"),
        [
            ({"redis_version": "6.0.16"}, "redis", "fail"),
            ({"maxmemory_policy": "allkeys-lru"}, "redis", "fail"),
            ({"maxmemory_policy": ""}, "redis", "warn"),
            ({"maxmemory": 11_000_000}, "redis memory", "warn"),
            ({"total_system_memory": 11_000_000}, "redis memory", "warn"),
            ({"aof_enabled": 0}, "redis file", "warn"),
            ({"aof_last_write_status": "err"}, "redis file", "fail"),
        ],
    )
    def test_what_it_tells_is_judged(self, changes: dict[str, Any], name: str, status: str) -> None:
        found = {finding.name: finding for finding in stores.judge_redis(INFO | changes)}
        assert {"redis", "redis memory", "redis file"} == set(found)
        assert found[name].status == status
        assert found[name].advice

    @pytest.mark.parametrize(("off_s", "status"), [(0.1, "ok"), (-2, "warn"), (2, "warn"), (-60, "fail")])
    def test_clocks_have_to_agree(self, off_s: float, status: str) -> None:
        assert stores.judge_clock(off_s).status == status

    def test_one_that_is_away_is_told_of(self) -> None:
        nobody = redis.Redis.from_url("unix:///nowhere/redis.sock")
        with patch.object(stores, "redis_connection", lambda: nobody):
            assert "nowhere" in stores.redis_answers()

    def test_a_url_that_cannot_be_read_is_not_shown(self) -> None:
        with patch.object(stores, "redis_connection", side_effect=ValueError("hunter2")):
            assert stores.redis_answers() == "its URL cannot be read."

    @pytest.mark.parametrize("url", ["unix:///nowhere/redis.sock", "hunter2"])
    def test_a_broker_of_its_own_is_looked_at(self, store: redis.Redis, url: str) -> None:
        with override_settings(SLUICE=replace(settings.SLUICE, broker_url=url)):
            found = {finding.name: finding for finding in stores.redis_server()}
        assert found["broker"].status == "fail"
        assert "hunter2" not in found["broker"].text


class TestWaitingReports:
    def test_it_works(self, store: redis.Redis) -> None:
        assert by_name(list(stores.waiting_reports())) == {"spool": "ok"}

    def test_late_ones_are_told_of(self, store: redis.Redis) -> None:
        store.xadd(keys.DELIVERIES, {"r": "{}"}, id=f"{(store.time()[0] - 90) * 1000}-1")
        assert by_name(list(stores.waiting_reports())) == {"spool": "warn"}

    def test_too_many_fail(self, store: redis.Redis) -> None:
        store.xadd(keys.DELIVERIES, {"r": "{}"})
        with override_settings(SLUICE=replace(settings.SLUICE, spool_limit=1)):
            assert by_name(list(stores.waiting_reports())) == {"spool": "fail"}

    def test_those_set_aside_are_told_of(self, store: redis.Redis) -> None:
        store.xadd(BAD_REPORTS, {"r": ""})
        assert [finding.status for finding in stores.waiting_reports()] == ["ok", "warn"]

    def test_full_logs_fail(self, store: redis.Redis) -> None:
        store.set(keys.LOGS_FULL, "1")
        assert by_name(list(stores.waiting_reports()))["event logs"] == "fail"
