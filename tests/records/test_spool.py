"""What waits for the database, and what was set aside: seen, told of, stored after all."""

from __future__ import annotations

import io
import logging
import time
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import redis
import redis.asyncio
from django.conf import settings
from django.core.management import CommandError, call_command

from common.errors import Overloaded
from inference.protocol import keys
from inference.protocol.reports import Settlement
from records import spool, tasks
from records.models import RequestRecord
from records.spool import BAD_REPORTS, Spool
from records.store import SETTLE_DELAY_MS, store_reports
from streaming.spool_watch import REMIND_S, Alarm, SpoolWatch
from tests.quotas.tools import a_settlement

pytestmark = pytest.mark.django_db


def settle(store: redis.Redis, settlement: Settlement) -> None:
    """Leave a settlement that has waited for its deliveries."""
    store.sadd(keys.MODELS, "m")
    at_ms = int(time.time() * 1000) - SETTLE_DELAY_MS - 100
    store.xadd(keys.settlements("m"), {"r": settlement.encode()}, id=f"{at_ms}-0")


def wait_there(store: redis.Redis, *, ages_s: tuple[float, ...]) -> None:
    """Leave reports of these ages in the streams."""
    now_ms = int(store.time()[0] * 1000 + store.time()[1] / 1000)
    store.sadd(keys.MODELS, "m", "n")
    streams = (keys.DELIVERIES, keys.settlements("m"), keys.settlements("n"))
    for i, age_s in enumerate(ages_s):
        store.xadd(streams[i % 3], {"r": "{}"}, id=f"{now_ms - int(age_s * 1000)}-1")


def reports(*arguments: str) -> str:
    out = io.StringIO()
    call_command("reports", *arguments, stdout=out)
    return out.getvalue()


class TestLook:
    def test_it_works(self, store: redis.Redis) -> None:
        wait_there(store, ages_s=(5, 90, 30))
        store.xadd(BAD_REPORTS, {"r": ""})
        found = spool.look(store)
        assert (found.waiting, found.set_aside) == (3, 1)
        assert 90 <= found.oldest_s < 95

    def test_an_empty_one_is_not_old(self, store: redis.Redis) -> None:
        assert spool.look(store) == Spool()


class TestSetAside:
    """A settlement of a key with an impossible number, and one that cannot be read."""

    @pytest.fixture(autouse=True)
    def _two(self, store: redis.Redis) -> None:
        settle(store, a_settlement("msg_1", input_tokens=-1, output_tokens=5))
        store.xadd(keys.DELIVERIES, {"r": "nonsense with a secret"})
        assert store_reports(store) == 2
        assert spool.look(store) == Spool(set_aside=2)

    def ids(self, store: redis.Redis) -> list[str]:
        return [report.id for report in spool.reports_set_aside(store)]

    def test_they_are_listed_without_what_they_say(self, store: redis.Redis) -> None:
        out = reports()
        assert "0 wait for the database; 2 were set aside." in out
        assert all(name in out for name in (*self.ids(store), keys.DELIVERIES, "cannot be read", "msg_1"))
        assert "secret" not in out

    def test_one_can_be_stored_after_all(self, store: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> None:
        bad = next(r.id for r in spool.reports_set_aside(store) if r.origin == keys.settlements("m"))
        field = RequestRecord._meta.get_field("input_tokens")
        monkeypatch.setattr(field, "get_db_prep_save", lambda value, connection: abs(value))  # what was wrong is mended
        assert "1 will be stored" in reports("--retry", bad)
        assert spool.look(store).set_aside == 1
        while spool.look(store).waiting:  # a settlement waits a moment for its deliveries
            store_reports(store)
        assert RequestRecord.objects.get().input_tokens == 1

    def test_what_is_still_wrong_is_set_aside_again(self, store: redis.Redis) -> None:
        assert "2 will be stored" in reports("--retry", "--all")
        assert spool.look(store).waiting == 2
        while spool.look(store).waiting:
            store_reports(store)
        assert spool.look(store).set_aside == 2

    def test_they_can_be_dropped(self, store: redis.Redis) -> None:
        first, second = self.ids(store)
        assert "1 dropped" in reports("--drop", first)
        assert self.ids(store) == [second]

    @pytest.mark.parametrize(
        ("arguments", "complaint"),
        [((), "give --all"), (("1-1", "--all"), "give --all"), (("1-1",), "Not set aside: 1-1")],
    )
    def test_it_rejects_what_it_cannot_tell(
        self, store: redis.Redis, arguments: tuple[str, ...], complaint: str
    ) -> None:
        with pytest.raises(CommandError, match=complaint):
            reports("--drop", *arguments)
        assert len(self.ids(store)) == 2


class TestFullRedis:
    """Bills are made of reports: they get into a Redis that takes nothing else."""

    def test_what_is_bad_does_not_stop_the_rest(self, store: redis.Redis) -> None:
        settle(store, a_settlement("msg_1", input_tokens=3, output_tokens=5))
        store.xadd(keys.DELIVERIES, {"r": "nonsense"})
        store.config_set("maxmemory", 1)
        try:
            store_reports(store)
        finally:
            store.config_set("maxmemory", 0)
        assert spool.look(store) == Spool(set_aside=1)
        assert RequestRecord.objects.get().outcome == "end_turn"


class TestWatch:
    @pytest.fixture
    async def client(self, redis_server: str, store: redis.Redis) -> AsyncIterator[redis.asyncio.Redis]:
        async with redis.asyncio.Redis.from_url(redis_server) as client:
            yield client

    def watch(self, client: redis.asyncio.Redis, **limits: float) -> SpoolWatch:
        return SpoolWatch(client, replace(settings.SLUICE, **limits))  # type: ignore[arg-type]

    async def test_it_works(self, client: redis.asyncio.Redis, caplog: pytest.LogCaptureFixture) -> None:
        watch = self.watch(client)
        await watch.look()
        watch.check()
        assert not caplog.records

    @pytest.mark.parametrize("limits", [{"spool_alarm_s": 60.0}, {"spool_alarm_reports": 2}])
    async def test_it_tells_once_and_when_it_is_over(
        self,
        client: redis.asyncio.Redis,
        store: redis.Redis,
        limits: dict[str, float],
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        watch = self.watch(client, **limits)
        wait_there(store, ages_s=(5, 90, 30))
        for _ in range(3):
            await watch.look()
            watch.check()  # nobody is refused
        store.flushall()
        for _ in range(3):
            await watch.look()
        assert [record.levelno for record in caplog.records] == [logging.WARNING, logging.WARNING]
        assert "3 reports wait for the database, the oldest for 9" in caplog.messages[0]
        assert "has all reports again" in caplog.messages[1]

    async def test_past_the_limit_new_requests_are_refused(
        self, client: redis.asyncio.Redis, store: redis.Redis, caplog: pytest.LogCaptureFixture
    ) -> None:
        watch = self.watch(client, spool_limit=2)
        wait_there(store, ages_s=(5, 9, 3))
        await watch.look()
        with pytest.raises(Overloaded):
            watch.check()
        assert [(r.levelno, r.getMessage()) for r in caplog.records] == [
            (logging.ERROR, "new requests are refused: 3 reports wait for the database (SLUICE_SPOOL_LIMIT=2)")
        ]
        store.flushall()
        await watch.look()
        watch.check()

    async def test_new_requests_stop_before_redis_is_full(
        self, client: redis.asyncio.Redis, store: redis.Redis
    ) -> None:
        watch = self.watch(client)
        used = store.info("memory")["used_memory"]
        try:
            for share, is_served in ((0.9, True), (0.98, False)):
                store.config_set("maxmemory", int(used / share))
                await watch.look()
                if is_served:
                    watch.check()
                else:
                    with pytest.raises(Overloaded):
                        watch.check()
        finally:
            store.config_set("maxmemory", 0)

    def test_what_lasts_is_told_again(self, caplog: pytest.LogCaptureFixture) -> None:
        clock = iter((0.0, REMIND_S / 2, REMIND_S, REMIND_S, REMIND_S * 1.5))
        alarm = Alarm(logging.WARNING, clock=lambda: next(clock))
        for _ in range(4):
            alarm.set("trouble", "over")
        assert caplog.messages == ["trouble", "trouble"]


def test_one_task_of_a_process_stores_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[redis.Redis] = []

    def store_for_long(client: redis.Redis) -> int:
        calls.append(client)
        if len(calls) == 1:
            tasks.store_records()  # the next tick comes
        return 0

    monkeypatch.setattr(tasks, "store_reports", store_for_long)
    tasks.store_records()
    tasks.store_records()
    assert len(calls) == 2
