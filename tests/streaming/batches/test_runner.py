"""Running batches to their end, whatever comes between."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from threading import Timer
from typing import Any

import pytest
import redis
from django.utils import timezone

from accounts.keys import revoke
from accounts.models import ApiKey, Organization
from batches.models import Batch
from common.ids import new_id
from inference.protocol import keys
from inference.protocol.quotas import reservations
from inference.protocol.reports import Settlement
from inference.protocol.settings import Settings
from inference.worker import Worker
from records.models import RequestRecord
from streaming.batches import ends
from streaming.batches.submission import Submission
from streaming.prompts import PromptTemplate
from tests.batches.tools import counts_of, ids_of, make_batch, params, results_of
from tests.conftest import Tenant
from tests.inference.tools import entries_of
from tests.streaming.batches.conftest import Go, begun, busy

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("worker")]

LONG: dict[str, Any] = {"max_tokens": 4000}  # runs for seconds


def settlements_of(store: redis.Redis, settings: Settings) -> list[Settlement]:
    return [Settlement.decode(fields[b"r"]) for _, fields in entries_of(store, keys.settlements(settings.model))]


def errors_of(batch: Batch) -> list[tuple[str, str]]:
    """Type and message of each error."""
    errors = [result["error"]["error"] for result in results_of(batch)]
    return [(error["type"], error["message"]) for error in errors]


def until_settled(store: redis.Redis, settings: Settings, count: int) -> None:
    deadline = time.monotonic() + 20
    while len(settlements_of(store, settings)) < count:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_it_works(go: Go, alice: Tenant, store: redis.Redis, settings: Settings) -> None:
    batch = make_batch(alice, *[params(f"Say {number}.") for number in range(40)])
    ids = ids_of(batch)
    go()
    assert (counts_of(batch), batch.status) == ({"succeeded": 40}, "ended")
    message = results_of(batch)[7]["message"]
    assert (message["id"], message["type"], message["stop_reason"]) == (ids[7], "message", "max_tokens")
    assert message["usage"]["output_tokens"] == 3
    settled = settlements_of(store, settings)
    assert sorted(one.id for one in settled) == sorted(ids)
    assert {one.outcome for one in settled} == {"max_tokens"}
    assert 0 < store.ttl(keys.meta(ids[0])) <= settings.event_log_ttl_s, "fetched, so it lives no longer than others"
    assert not store.exists(keys.PUMP)


@pytest.mark.parametrize(
    ("wrong", "kind", "message"),
    [
        ({"max_tokens": 0}, "invalid_request_error", "max_tokens: expected `int` >= 1."),
        ({"nonsense": 1}, "invalid_request_error", "nonsense: no such field."),
        ({"stream": True}, "invalid_request_error", "stream: not supported in a batch."),
        ({"model": "other"}, "not_found_error", "model: other is not served here. GET /v1/models lists what is."),
        ({"max_tokens": 10**6}, "invalid_request_error", "max_tokens: the prompt has "),
    ],
)
def test_what_a_post_would_refuse_is_errored(
    go: Go, alice: Tenant, wrong: dict[str, Any], kind: str, message: str
) -> None:
    batch = make_batch(alice, params(**wrong), params())
    go()
    assert counts_of(batch) == {"errored": 1, "succeeded": 1}
    error = results_of(batch)[0]["error"]
    assert (error["type"], error["request_id"], error["error"]["type"]) == ("error", None, kind)
    assert error["error"]["message"].startswith(message)


def test_a_failure_of_ours_ends_one_request_alone(
    go: Go, alice: Tenant, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    parse = Submission._prepare

    async def fail(self: Any, item: Any, *more: Any) -> Any:
        if b"secret" in item.params:
            raise RuntimeError("a fault")
        return await parse(self, item, *more)

    monkeypatch.setattr(Submission, "_prepare", fail)
    batch = make_batch(alice, params("a secret"), params())
    go()
    assert counts_of(batch) == {"errored": 1, "succeeded": 1}
    assert results_of(batch)[0]["error"]["error"]["type"] == "api_error"
    assert "secret" not in caplog.text


def test_a_revoked_key_ends_what_has_not_begun(go: Go, alice: Tenant) -> None:
    batch = make_batch(alice, *[params()] * 3)
    revoke(alice.key)
    go()
    assert errors_of(batch) == [("authentication_error", "This API key was revoked.")] * 3


def test_a_suspended_organisation_ends_what_has_not_begun(go: Go, alice: Tenant) -> None:
    batch = make_batch(alice, *[params()] * 3)
    Organization.objects.update(suspended_at=timezone.now())
    go()
    assert {kind for kind, _ in errors_of(batch)} == {"permission_error"}


def test_a_batch_canceled_before_it_began(go: Go, alice: Tenant, store: redis.Redis) -> None:
    batch = make_batch(alice, *[params()] * 5)
    ids = ids_of(batch)
    Batch.objects.update(cancel_initiated_at=timezone.now())
    go()
    assert (counts_of(batch), results_of(batch)) == ({"canceled": 5}, [{"type": "canceled"}] * 5)
    assert not store.exists(*map(keys.meta, ids))


@pytest.mark.parametrize(
    ("change", "kind"),
    [({"cancel_initiated_at": timezone.now()}, "canceled"), ({"expires_at": timezone.now()}, "expired")],
)
def test_what_runs_is_cancelled_in_its_worker(
    go: Go, alice: Tenant, store: redis.Redis, settings: Settings, change: dict[str, Any], kind: str
) -> None:
    batch = make_batch(alice, *[params(**LONG)] * 6)
    ids = ids_of(batch)
    go(until=lambda: begun(store, ids) == 3, batch_concurrency=3)
    Batch.objects.update(**change)
    go()
    assert (counts_of(batch), results_of(batch)) == ({kind: 6}, [{"type": kind}] * 6)
    until_settled(store, settings, 3)
    assert [one.outcome for one in settlements_of(store, settings)] == ["cancelled"] * 3


def test_what_waits_is_cancelled_without_a_worker(
    go: Go, alice: Tenant, store: redis.Redis, settings: Settings, worker: Worker
) -> None:
    ApiKey.objects.update(max_streams=100)
    batch = make_batch(alice, *[params()] * 4)
    busy(worker, store)
    go(until=lambda: store.zcard(keys.ready(settings.model)) == 4)
    assert store.hlen(reservations(alice.key.organization_id)) == 4
    Batch.objects.update(cancel_initiated_at=timezone.now())
    go()
    assert counts_of(batch) == {"canceled": 4}
    assert [one.outcome for one in settlements_of(store, settings)] == ["cancelled"] * 4
    assert not store.exists(keys.ready(settings.model), reservations(alice.key.organization_id))


def test_a_runner_that_dies_before_it_stores(
    go: Go, alice: Tenant, store: redis.Redis, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = make_batch(alice, *[params()] * 20)
    ids = ids_of(batch)
    with monkeypatch.context() as patched:

        def die(*_: Any) -> None:
            raise OSError("killed")

        patched.setattr(ends, "store_results", die)
        with pytest.raises(OSError, match="killed"):
            go()
    go()
    assert counts_of(batch) == {"succeeded": 20}
    assert Counter(one.id for one in settlements_of(store, settings)) == Counter(ids)


def test_what_ended_while_nobody_looked_is_fetched(
    go: Go, uncollected: Callable[[list[str]], None], alice: Tenant, store: redis.Redis, settings: Settings
) -> None:
    batch = make_batch(alice, *[params()] * 5)
    ids = ids_of(batch)
    uncollected(ids)
    until_settled(store, settings, 5)
    assert store.ttl(keys.meta(ids[0])) > settings.event_log_ttl_s, "it waits for whoever asked"
    go()
    assert counts_of(batch) == {"succeeded": 5}
    assert len(settlements_of(store, settings)) == 5


def test_an_answer_that_is_gone_is_errored_and_not_made_again(
    go: Go, uncollected: Callable[[list[str]], None], alice: Tenant, store: redis.Redis, settings: Settings
) -> None:
    batch = make_batch(alice, *[params()] * 2)
    first, second = ids_of(batch)
    uncollected([first, second])
    until_settled(store, settings, 2)
    store.delete(keys.log(first), keys.meta(first))
    go()
    assert counts_of(batch) == {"errored": 1, "succeeded": 1}
    assert results_of(batch)[0]["error"]["error"]["message"] == "The server lost the answer to this request."
    assert len(settlements_of(store, settings)) == 2


def test_what_the_records_know_is_not_run_again(go: Go, alice: Tenant) -> None:
    batch = make_batch(alice, params(), params())
    RequestRecord.objects.create(
        id=ids_of(batch)[0],
        organization_id=alice.key.organization_id,
        key=alice.key,
        model="m",
        created_at=timezone.now(),
        input_tokens=1,
        outcome="end_turn",
    )
    go()
    assert counts_of(batch) == {"errored": 1, "succeeded": 1}


def test_what_redis_forgot_is_run(
    go: Go, alice: Tenant, store: redis.Redis, worker: Worker, settings: Settings
) -> None:
    names = ids_of(make_batch(alice, *[params()] * 3))
    busy(worker, store)
    for _ in range(2):
        go(until=lambda: store.zcard(keys.ready(settings.model)) == 3)
        assert begun(store, names) == store.zcard(keys.ready(settings.model)) == 3
        queue = (keys.ready(settings.model), keys.payloads(settings.model))
        store.delete(*queue, *(name(one) for one in names for name in (keys.log, keys.meta, keys.owner)))


def test_a_tokenizer_is_loaded_once_by_all_runners_of_a_process(
    go: Go, alice: Tenant, template: PromptTemplate, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads: list[Path] = []

    def load(folder: Path) -> PromptTemplate:
        loads.append(folder)
        return template

    monkeypatch.setattr("streaming.catalog.PromptTemplate.load", load)
    for _ in range(2):
        make_batch(alice, params())
        go()
    assert len(loads) == 1


def test_another_runner_leaves_it_alone(go: Go, alice: Tenant, store: redis.Redis) -> None:
    batch = make_batch(alice, params())
    store.set(keys.PUMP, new_id("x"))
    go()
    assert counts_of(batch) == {"processing": 1}


def test_a_runner_that_lost_its_turn_ends(go: Go, alice: Tenant, store: redis.Redis) -> None:
    make_batch(alice, params(**LONG))
    began = time.monotonic()

    def lose() -> None:
        store.set(keys.PUMP, "another's")

    timer = Timer(0.5, lose)
    timer.start()
    go(20)
    timer.join()
    assert time.monotonic() - began < 10
    assert store.get(keys.PUMP) == b"another's"


class TestLimits:
    def test_a_request_larger_than_a_limit_is_errored(self, go: Go, alice: Tenant) -> None:
        ApiKey.objects.update(otpm=100)
        batch = make_batch(alice, params(max_tokens=101), params())
        go()
        assert counts_of(batch) == {"errored": 1, "succeeded": 1}
        assert results_of(batch)[0]["error"]["error"]["type"] == "rate_limit_error"

    def test_who_has_reached_a_limit_waits_and_holds_nobody_up(
        self, go: Go, alice: Tenant, charlie: Tenant, store: redis.Redis, settings: Settings
    ) -> None:
        ApiKey.objects.filter(pk=alice.key.pk).update(budget_tokens=200, rpm=100)
        held = make_batch(alice, params(max_tokens=100), params(max_tokens=150))
        other = make_batch(charlie, *[params()] * 30)
        go(until=lambda: len(settlements_of(store, settings)) == 31)
        go(1)
        assert counts_of(other) == {"succeeded": 30}
        assert counts_of(held) == {"processing": 1, "succeeded": 1}
        ApiKey.objects.filter(pk=alice.key.pk).update(budget_tokens=None)
        go()
        assert counts_of(held) == {"succeeded": 2}

    def test_half_of_the_places_for_streams_stay_free(self, go: Go, alice: Tenant, store: redis.Redis) -> None:
        ApiKey.objects.update(max_streams=8)
        names = ids_of(make_batch(alice, *[params(**LONG)] * 20))
        go(until=lambda: begun(store, names) == 4)
        go(0.5)
        assert begun(store, names) == 4

    def test_half_of_a_rate_stays_free(self, go: Go, alice: Tenant, store: redis.Redis, settings: Settings) -> None:
        ApiKey.objects.update(rpm=20)
        names = ids_of(make_batch(alice, *[params()] * 20))
        go(until=lambda: len(settlements_of(store, settings)) >= 10)
        go(1)
        assert 10 <= begun(store, names) <= 14  # one more every 3 s


def test_organisations_take_turns(go: Go, alice: Tenant, charlie: Tenant, store: redis.Redis) -> None:
    batches = [make_batch(alice, *[params(**LONG)] * 50), make_batch(charlie, *[params(**LONG)] * 2)]
    names = [ids_of(batch) for batch in (*batches, make_batch(alice, *[params(**LONG)] * 50))]
    go(until=lambda: sum(begun(store, ids) for ids in names) == 8, batch_concurrency=8)
    assert [begun(store, ids) for ids in names] == [3, 2, 3]


def test_no_more_begin_than_workers_leave_room_for(go: Go, alice: Tenant, store: redis.Redis) -> None:
    names = ids_of(make_batch(alice, *[params(**LONG)] * 50))
    go(until=lambda: begun(store, names) == 16, batch_share=0.25)
    go(0.5, batch_share=0.25)
    assert begun(store, names) == 16


def test_a_full_queue_is_waited_for(
    go: Go, alice: Tenant, store: redis.Redis, worker: Worker, settings: Settings
) -> None:
    ApiKey.objects.update(max_streams=100)
    batch = make_batch(alice, *[params()] * 5)
    busy(worker, store)
    go(until=lambda: store.zcard(keys.ready(settings.model)) == 2, queue_limit=4)
    go(1, queue_limit=4)
    assert store.zcard(keys.ready(settings.model)) == store.hlen(reservations(alice.key.organization_id)) == 2
    assert counts_of(batch) == {"processing": 5}


def test_it_begins_nothing_while_the_logs_are_full(go: Go, alice: Tenant, store: redis.Redis) -> None:
    store.set(keys.LOGS_FULL, "1")
    batch = make_batch(alice, params())
    name = ids_of(batch)[0]
    go(0.5)
    assert not store.exists(keys.meta(name))


def test_without_batches_it_ends_at_once(go: Go, db: None) -> None:
    began = time.monotonic()
    go(20)
    assert time.monotonic() - began < 5
