"""How deep a queue is, by class."""

from __future__ import annotations

import redis

from inference.protocol import keys, scripts
from inference.protocol.outcomes import Priority
from inference.protocol.queueing import CLASSES, depths, head_start_ms
from tests.inference.tools import a_request, enqueue

MODEL = "m"
QUEUE = (keys.ready(MODEL), keys.payloads(MODEL), keys.leases(MODEL), keys.attempts(MODEL), keys.wake(MODEL))


def put(store: redis.Redis, message_id: str, priority: Priority) -> None:
    request = a_request(message_id, priority=priority, texts=('"priority":"batch"',))
    enqueue(store, request, head_start_ms=head_start_ms(priority))


def depths_of(store: redis.Redis) -> dict[Priority, int]:
    return depths(store.eval(scripts.QUEUED, 1, keys.ready(MODEL)))


def test_it_works(store: redis.Redis) -> None:
    assert depths_of(store) == dict.fromkeys(CLASSES, 0)
    order: tuple[Priority, ...] = ("batch", "standard", "priority", "batch", "standard", "batch")
    for message_id, priority in enumerate(order):
        put(store, str(message_id), priority)

    assert depths_of(store) == {"priority": 1, "standard": 2, "batch": 3}
    assert store.zrange(keys.ready(MODEL), 0, -1) == [b"2", b"1", b"4", b"0", b"3", b"5"], "the order is as it was"


def test_what_is_given_back_keeps_its_class(store: redis.Redis) -> None:
    for priority in CLASSES:
        put(store, priority, priority)
    claimed = store.eval(scripts.CLAIM, 5, *QUEUE, 3, 10_000)
    assert depths_of(store) == dict.fromkeys(CLASSES, 0)
    for message_id, pen in zip(claimed[::6], claimed[2::6], strict=True):
        store.eval(scripts.RELEASE, 5, *QUEUE, message_id, pen)

    assert depths_of(store) == dict.fromkeys(CLASSES, 1)


def test_what_an_older_gateway_put_there_counts_as_standard(store: redis.Redis) -> None:
    enqueue(store, a_request(priority="batch"), head_start_ms=-600_000)
    assert depths_of(store)["standard"] == 1
