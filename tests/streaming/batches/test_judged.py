"""What the requests of a batch come to: judged by the worker that ends them, since nobody else sees it."""

from __future__ import annotations

import json
import time
from collections import Counter
from typing import cast

import pytest
import redis

from inference.protocol import keys
from inference.protocol.minutes import ANSWERS, GOOD, read
from inference.worker import Worker
from tests.batches.tools import counts_of, make_batch, params
from tests.conftest import Tenant
from tests.streaming.batches.conftest import Go

pytestmark = pytest.mark.django_db(transaction=True)


def answers(store: redis.Redis) -> Counter[str]:
    """What all requests came to, in any minute."""
    found: Counter[str] = Counter()
    for minute in cast(dict[bytes, bytes], store.hgetall(keys.MINUTES_CHANGED)):
        for _, _, sums in read(cast(dict[bytes, bytes], store.hgetall(keys.minute(int(minute))))):
            found.update(json.loads(sums).get(ANSWERS, {}))
    return found


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
    counts = cast(dict[bytes, bytes], store.hgetall(keys.COUNTS))
    assert counts[b"answers_total|good|"] == b"5"
