"""What the requests of a batch come to: judged by the worker or the runner that ends them, who alone see it."""

from __future__ import annotations

import json
import time
from collections import Counter
from typing import Any, cast

import pytest
import redis
from django.utils import timezone

from batches.models import Batch
from inference.protocol import keys, metrics
from inference.protocol.minutes import ANSWERS, GOOD, LEFT_OUT, read
from inference.protocol.settings import Settings
from inference.worker import Worker
from streaming.batches import ends
from streaming.batches.submission import Submission
from tests.batches.tools import counts_of, make_batch, params
from tests.conftest import Tenant
from tests.streaming.batches.conftest import Go, busy

pytestmark = pytest.mark.django_db(transaction=True)


def answers(store: redis.Redis) -> Counter[str]:
    """What all requests came to, in any minute."""
    found: Counter[str] = Counter()
    for minute in cast(dict[bytes, bytes], store.hgetall(keys.MINUTES_CHANGED)):
        for _, _, sums in read(cast(dict[bytes, bytes], store.hgetall(keys.minute(int(minute))))):
            found.update(json.loads(sums).get(ANSWERS, {}))
    return found


def counted(store: redis.Redis) -> dict[str, int]:
    """The same for /metrics."""
    head = f"{metrics.ANSWERS.name}|"
    counts = {name.decode(): int(count) for name, count in cast(dict[bytes, bytes], store.hgetall(keys.COUNTS)).items()}
    return {name.removeprefix(head): count for name, count in counts.items() if name.startswith(head)}


def test_each_item_is_judged_once(go: Go, alice: Tenant, worker: Worker, store: redis.Redis) -> None:
    batch = make_batch(alice, *[params(f"Say {number}.") for number in range(5)])
    go()
    assert counts_of(batch) == {"succeeded": 5}
    worker.stop()  # it tells what it counted before it goes
    deadline = time.monotonic() + 20
    while store.hexists(keys.WORKERS, worker.id):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert answers(store) == {GOOD: 5}
    assert counted(store) == {"good|": 5}


def test_what_is_refused_is_judged_by_the_runner(
    go: Go, alice: Tenant, worker: Worker, store: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: Any) -> Any:
        raise RuntimeError("a fault")

    make_batch(alice, params(max_tokens=10**6))
    go()
    monkeypatch.setattr(Submission, "_admit", fail)
    make_batch(alice, params(), params())
    go()
    assert answers(store) == {LEFT_OUT: 1, "bad:api_error": 2}
    assert counted(store) == {"left_out|": 1, "bad|api_error": 2}


def test_a_refusal_that_is_not_stored_is_judged_when_it_is(
    go: Go, alice: Tenant, worker: Worker, store: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_batch(alice, params(max_tokens=10**6))
    with monkeypatch.context() as patched:

        def die(*_: Any) -> None:
            raise OSError("killed")

        patched.setattr(ends, "store_results", die)
        with pytest.raises(OSError, match="killed"):
            go()
    assert answers(store) == {}
    go()
    assert answers(store) == {LEFT_OUT: 1}


def test_what_no_worker_ends_is_judged_by_the_runner(
    go: Go, alice: Tenant, worker: Worker, store: redis.Redis, settings: Settings
) -> None:
    make_batch(alice, params(), params())
    busy(worker, store)
    go(until=lambda: store.zcard(keys.ready(settings.model)) == 2)
    Batch.objects.update(cancel_initiated_at=timezone.now())
    go()
    assert answers(store) == {LEFT_OUT: 2}
    assert counted(store) == {"left_out|": 2}
