"""The queue and the fenced log, on a real Redis."""

from __future__ import annotations

from typing import Any

import redis

from inference.protocol import keys, scripts
from tests.inference.tools import MODEL, a_request, enqueue, entries_of

QUEUE = (keys.ready(MODEL), keys.payloads(MODEL), keys.leases(MODEL), keys.attempts(MODEL))


def claim(store: redis.Redis, count: int = 10, lease_ms: int = 10_000) -> list[tuple[str, int]]:
    reply: list[Any] = store.eval(scripts.CLAIM, 5, *QUEUE, keys.wake(MODEL), count, lease_ms)
    return [(reply[i].decode(), reply[i + 1]) for i in range(0, len(reply), 5)]


def append(store: redis.Redis, attempt: int, first_id: int, *frames: str, outcome: str = "") -> Any:
    entries = [value for frame in frames for value in (frame, "7")]
    arguments: tuple[Any, ...] = (attempt, keys.channel("msg_1"), first_id, 0, outcome, 60, *entries)
    return store.eval(scripts.APPEND, 2, keys.log("msg_1"), keys.meta("msg_1"), *arguments)


def take(store: redis.Redis, attempt: int, age_ms: int = 5) -> Any:
    return store.eval(scripts.TAKE, 1, keys.meta("msg_1"), attempt, age_ms)


def ids_in_log(store: redis.Redis) -> list[bytes]:
    return [entry_id for entry_id, _ in entries_of(store, keys.log("msg_1"))]


def test_claims_come_in_order_of_arrival(store: redis.Redis) -> None:
    for name in "abc":
        enqueue(store, a_request(name))
    assert claim(store, 2) == [("a", 1), ("b", 1)]
    assert claim(store) == [("c", 1)]
    assert claim(store) == []


def test_a_head_start_goes_first_and_ageing_lets_the_rest_follow(store: redis.Redis) -> None:
    enqueue(store, a_request("batch"), head_start_ms=-600_000)
    enqueue(store, a_request("standard"))
    enqueue(store, a_request("priority"), head_start_ms=10_000)
    assert [name for name, _ in claim(store)] == ["priority", "standard", "batch"]


def test_a_full_queue_takes_no_more(store: redis.Redis) -> None:
    assert enqueue(store, a_request("a"), limit=1) == 1
    assert enqueue(store, a_request("b"), limit=1) == -1
    assert not store.hexists(keys.payloads(MODEL), "b")


def test_a_request_that_comes_twice_is_queued_once(store: redis.Redis) -> None:
    enqueue(store, a_request("a"), limit=1)
    assert enqueue(store, a_request("a"), limit=1) == 1
    assert claim(store) == [("a", 1)]
    assert enqueue(store, a_request("a")) == 0
    assert claim(store) == []


def test_a_lapsed_lease_is_claimed_again_as_a_new_attempt(store: redis.Redis) -> None:
    enqueue(store, a_request("a"))
    assert claim(store, lease_ms=-1) == [("a", 1)]
    assert claim(store) == [("a", 2)]
    assert claim(store) == []


def test_a_renewed_lease_does_not_lapse_and_a_lost_one_is_told(store: redis.Redis) -> None:
    enqueue(store, a_request("a"))
    claim(store, lease_ms=-1)
    names = (keys.leases(MODEL), keys.attempts(MODEL))
    assert store.eval(scripts.RENEW, 2, *names, 10_000, "a", 1) == []
    assert claim(store) == []
    assert store.eval(scripts.RENEW, 2, *names, 10_000, "a", 9) == [b"a"]


def test_a_released_request_is_first_in_line(store: redis.Redis) -> None:
    enqueue(store, a_request("a"))
    claim(store)
    enqueue(store, a_request("b"), head_start_ms=10_000)
    assert store.eval(scripts.RELEASE, 5, *QUEUE, keys.wake(MODEL), "a", 1) == 1
    assert claim(store) == [("a", 2), ("b", 1)]


def test_only_a_lapsed_lease_counts_as_lost(store: redis.Redis) -> None:
    enqueue(store, a_request("a"))
    claim(store)
    store.eval(scripts.RELEASE, 5, *QUEUE, keys.wake(MODEL), "a", 1)
    claim(store, lease_ms=-1)
    (_, attempt, lost, *_) = store.eval(scripts.CLAIM, 5, *QUEUE, keys.wake(MODEL), 1, 10_000)
    assert (attempt, lost) == (3, 1)


def test_it_settles_once_and_leaves_nothing_behind(store: redis.Redis) -> None:
    enqueue(store, a_request("a"))
    claim(store)
    settle = (scripts.SETTLE, 5, *QUEUE, keys.settlements(MODEL), "a")
    assert store.eval(*settle, 2, "wrong attempt") == 0
    assert store.eval(*settle, 1, "right") == 1
    assert store.eval(*settle, 1, "again") == 0
    assert [fields for _, fields in entries_of(store, keys.settlements(MODEL))] == [{b"r": b"right"}]
    assert not store.exists(*QUEUE)


def test_an_append_is_logged_and_announced(store: redis.Redis) -> None:
    enqueue(store, a_request())
    listener: Any = store.pubsub(ignore_subscribe_messages=True)  # type: ignore[no-untyped-call]  # redis-py's gap
    listener.subscribe(keys.channel("msg_1"))
    listener.get_message(timeout=5)
    take(store, 1)
    assert append(store, 1, 2, "two\n", "three\n") == b""
    message = listener.get_message(timeout=5)
    assert message is not None
    assert message["data"] == b"2 3 0 0\ntwo\nthree\n"
    assert ids_in_log(store) == [b"1-0", b"2-0", b"3-0"]
    listener.close()


def test_a_stale_attempt_is_fenced(store: redis.Redis) -> None:
    enqueue(store, a_request())
    take(store, 1)
    assert take(store, 2) == [b"1", b"", b"", b"5"]
    assert append(store, 1, 2, "stale") == -1
    assert take(store, 1) is None
    assert ids_in_log(store) == [b"1-0"]


def test_an_append_may_come_twice(store: redis.Redis) -> None:
    enqueue(store, a_request())
    take(store, 1)
    append(store, 1, 2, "two", "three")
    assert append(store, 1, 2, "two", "three") == b""
    assert ids_in_log(store) == [b"1-0", b"2-0", b"3-0"]


def test_an_empty_append_asks_for_the_cancel(store: redis.Redis) -> None:
    enqueue(store, a_request())
    take(store, 1)
    assert append(store, 1, 2) == b""
    assert store.eval(scripts.CANCEL, 1, keys.meta("msg_1"), "cancelled") == 2
    assert store.eval(scripts.CANCEL, 1, keys.meta("msg_1"), "client_gone") == 2
    assert append(store, 1, 2) == b"cancelled"


def test_an_ended_message_cannot_be_cancelled_and_expires(store: redis.Redis) -> None:
    enqueue(store, a_request())
    take(store, 1)
    append(store, 1, 2, "end", outcome="end_turn")
    assert store.eval(scripts.CANCEL, 1, keys.meta("msg_1"), "cancelled") == 1
    assert 0 < store.ttl(keys.log("msg_1")) <= 60


def test_who_takes_an_ended_log_learns_its_outcome(store: redis.Redis) -> None:
    enqueue(store, a_request())
    take(store, 2)
    append(store, 2, 2, "end", outcome="client_gone")
    assert take(store, 3, age_ms=900) == [b"2", b"", b"client_gone", b"5"]
    assert take(store, 1)[2] == b"client_gone", "a request that was queued again after its end"


def test_an_unknown_message_can_neither_be_cancelled_nor_taken(store: redis.Redis) -> None:
    assert store.eval(scripts.CANCEL, 1, keys.meta("msg_1"), "cancelled") == 0
    assert take(store, 1) == 0


def test_a_log_is_opened_once(store: redis.Redis) -> None:
    names = (keys.log("msg_1"), keys.meta("msg_1"), keys.owner("msg_1"))
    assert store.eval(scripts.OPEN, 3, *names, "one", 60, 60, "org_1", 0, "key", "k") == 1
    assert store.eval(scripts.OPEN, 3, *names, "two", 60, 60, "org_1", 0, "key", "k") == 0
