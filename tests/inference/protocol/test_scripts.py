"""The queue and the fenced log, on a real Redis."""

from __future__ import annotations

import time
from typing import Any, cast

import pytest
import redis

from inference.protocol import keys, scripts
from tests.inference.tools import MODEL, a_request, enqueue, entries_of, roll_back, snapshot

QUEUE = (keys.ready(MODEL), keys.payloads(MODEL), keys.leases(MODEL), keys.attempts(MODEL))


def claim(store: redis.Redis, count: int = 10, lease_ms: int = 10_000) -> list[tuple[str, int]]:
    reply: list[Any] = store.eval(scripts.CLAIM, 5, *QUEUE, keys.wake(MODEL), count, lease_ms)
    return [(reply[i].decode(), reply[i + 1]) for i in range(0, len(reply), 6)]


def pen_of(store: redis.Redis, message_id: str) -> int:
    """The pen of a message's last claim."""
    return int(store.hget(keys.attempts(MODEL), f"{message_id}|pen") or 0)


def append(store: redis.Redis, pen: int, first_id: int, *frames: str, outcome: str = "") -> Any:
    entries = [value for frame in frames for value in (frame, "7")]
    arguments: tuple[Any, ...] = (pen, keys.channel("msg_1"), first_id, 0, outcome, 60, *entries)
    names = (keys.log("msg_1"), keys.meta("msg_1"), keys.owner("msg_1"))
    return store.eval(scripts.APPEND, 3, *names, *arguments)


def take(store: redis.Redis, pen: int, age_ms: int = 5) -> Any:
    return store.eval(scripts.TAKE, 1, keys.meta("msg_1"), pen, age_ms)


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


def test_what_is_too_large_stays_for_another_and_nobody_overtakes_it(store: redis.Redis) -> None:
    for name, length in (("a", 3), ("b", 3000), ("c", 3)):
        enqueue(store, a_request(name, prompt_ids=(7,) * length))

    def names(room: int, any_size: int) -> list[bytes]:
        reply = store.eval(scripts.CLAIM, 5, *QUEUE, keys.wake(MODEL), 9, 10_000, room, any_size)
        return cast(list[bytes], reply[::6])

    assert names(1000, 1) == [b"a"]
    assert names(1000, 0) == []
    assert names(1000, 1) == [b"b"]
    assert names(1000, 0) == [b"c"]


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
    assert store.eval(scripts.RENEW, 2, *names, 10_000, "a", pen_of(store, "a")) == []
    assert claim(store) == []
    assert store.eval(scripts.RENEW, 2, *names, 10_000, "a", 9) == [b"a"]


def test_a_released_request_is_first_in_line(store: redis.Redis) -> None:
    enqueue(store, a_request("a"))
    claim(store)
    enqueue(store, a_request("b"), head_start_ms=10_000)
    assert store.eval(scripts.RELEASE, 5, *QUEUE, keys.wake(MODEL), "a", pen_of(store, "a")) == 1
    assert claim(store) == [("a", 2), ("b", 1)]


def test_only_a_lapsed_lease_counts_as_lost(store: redis.Redis) -> None:
    enqueue(store, a_request("a"))
    claim(store)
    store.eval(scripts.RELEASE, 5, *QUEUE, keys.wake(MODEL), "a", pen_of(store, "a"))
    claim(store, lease_ms=-1)
    (_, attempt, _, lost, *_) = store.eval(scripts.CLAIM, 5, *QUEUE, keys.wake(MODEL), 1, 10_000)
    assert (attempt, lost) == (3, 1)


def test_it_settles_once_and_leaves_nothing_behind(store: redis.Redis) -> None:
    enqueue(store, a_request("a"))
    claim(store)
    settle = (scripts.SETTLE, 6, *QUEUE, keys.settlements(MODEL), keys.outcomes(MODEL), "a")
    pen = pen_of(store, "a")
    assert store.eval(*settle, pen + 1, "wrong attempt") == 0
    assert store.eval(*settle, pen, "right") == 1
    assert store.eval(*settle, pen, "again") == 0
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


class TestLostTail:
    """Redis came back without the last of what it had been told."""

    @pytest.fixture(autouse=True)
    def _log(self, store: redis.Redis) -> None:
        enqueue(store, a_request())
        take(store, 5)

    def test_a_gap_is_refused_and_told(self, store: redis.Redis) -> None:
        append(store, 5, 2, "two", "three")
        assert append(store, 5, 5, "five") == [3, b"three"]
        assert append(store, 5, 5) == [3, b"three"], "whoever only asks is told as well"
        assert ids_in_log(store) == [b"1-0", b"2-0", b"3-0"]
        assert append(store, 5, 4, "four", "five") == b""

    def test_what_is_there_already_must_be_the_same(self, store: redis.Redis) -> None:
        append(store, 5, 2, "two", "another three")
        assert append(store, 5, 2, "two", "three", "four") == [3, b"another three"]
        assert append(store, 5, 2, "two") == [3, b"another three"], "it ends before what is there"
        assert append(store, 5, 2) == [3, b"another three"]

    def test_an_append_goes_on_where_an_earlier_one_got_to(self, store: redis.Redis) -> None:
        append(store, 5, 2, "two")
        assert append(store, 5, 2, "two", "three") == b""
        assert [fields[b"f"] for _, fields in entries_of(store, keys.log("msg_1"))][1:] == [b"two", b"three"]

    def test_its_size_counts_each_event_once(self, store: redis.Redis) -> None:
        before = int(store.hget(keys.meta("msg_1"), "bytes") or 0)
        append(store, 5, 2, "two")
        append(store, 5, 2, "two", "three")
        assert int(store.hget(keys.meta("msg_1"), "bytes") or 0) - before == len("two7three7") + 48

    def test_a_pen_that_was_forgotten_must_be_taken_again(self, store: redis.Redis) -> None:
        append(store, 5, 2, "two")
        assert append(store, 7, 3, "three") == append(store, 7, 3) == append(store, 7, 2, "two") == [2, b"two"]
        assert ids_in_log(store) == [b"1-0", b"2-0"]
        take(store, 7)
        assert append(store, 7, 3, "three") == b""
        assert append(store, 5, 4, "stale") == -1

    def test_a_log_that_somebody_else_has_ended_takes_nothing(self, store: redis.Redis) -> None:
        append(store, 5, 2, "end", outcome="end_turn")
        assert append(store, 7, 3, "three") == -1
        assert append(store, 7, 3) == -1
        assert append(store, 5, 3, "three") == -1
        assert append(store, 5, 3) == b"", "but its own writer may ask"

    def test_a_log_that_never_was_is_not_one_that_has_expired(self, store: redis.Redis) -> None:
        store.delete(keys.log("msg_1"), keys.meta("msg_1"))
        assert append(store, 5, 2, "two") == -1
        store.delete(keys.owner("msg_1"))
        assert append(store, 5, 2, "two") == -2
        assert not store.exists(keys.log("msg_1"))

    def test_pens_grow_whatever_was_forgotten(self, store: redis.Redis) -> None:
        before = snapshot(store)
        claim(store)
        pen = pen_of(store, "msg_1")
        time.sleep(0.002)  # nobody claims within the same millisecond in which Redis restarts
        roll_back(store, before)
        assert claim(store) == [("msg_1", 1)]
        assert pen_of(store, "msg_1") > pen

    def test_claims_within_a_millisecond_differ(self, store: redis.Redis) -> None:
        pens = []
        for _ in range(20):
            claim(store, lease_ms=-1)
            pens.append(pen_of(store, "msg_1"))
        assert pens == sorted(set(pens))

    def reclaim(self, store: redis.Redis, pen: int) -> int:
        return int(store.eval(scripts.RECLAIM, 4, *QUEUE, "msg_1", 1, pen, 10_000, 500, "payload"))

    def test_a_claim_that_was_forgotten_is_made_again(self, store: redis.Redis) -> None:
        claim(store)
        pen = pen_of(store, "msg_1")
        store.delete(*QUEUE)
        assert self.reclaim(store, pen) == 1
        assert claim(store) == []
        assert pen_of(store, "msg_1") == pen
        came, _, payload = cast(bytes, store.hget(keys.payloads(MODEL), "msg_1")).partition(b"|")
        assert payload == b"payload"
        assert 500 <= store.time()[0] * 1000 + 999 - int(came) < 2500

    def test_a_request_that_waits_again_is_taken_out_of_the_line(self, store: redis.Redis) -> None:
        before = snapshot(store)
        claim(store)
        pen = pen_of(store, "msg_1")
        roll_back(store, before)
        assert self.reclaim(store, pen) == 1
        assert claim(store) == []
        assert cast(bytes, store.hget(keys.payloads(MODEL), "msg_1")).endswith(a_request().encode().encode())

    def test_a_later_claim_stays(self, store: redis.Redis) -> None:
        claim(store)
        pen = pen_of(store, "msg_1")
        assert self.reclaim(store, pen - 1) == 0
        assert pen_of(store, "msg_1") == pen

    def test_a_message_that_is_in_no_queue_is_claimed_by_one(self, store: redis.Redis) -> None:
        names = (keys.payloads(MODEL), keys.leases(MODEL), keys.attempts(MODEL))
        assert store.eval(scripts.CLAIM_LOST, 3, *names, "msg_1", 10_000) == 0, "it waits in the queue"
        store.delete(*QUEUE)
        pen = store.eval(scripts.CLAIM_LOST, 3, *names, "msg_1", 10_000)
        assert pen == pen_of(store, "msg_1")
        assert store.eval(scripts.CLAIM_LOST, 3, *names, "msg_1", 10_000) == 0


def used(store: redis.Redis, until: int) -> Any:
    return store.eval(scripts.USAGE, 2, keys.log("msg_1"), keys.meta("msg_1"), until)


class TestUsage:
    def test_it_counts_what_was_released_up_to_an_event(self, store: redis.Redis) -> None:
        enqueue(store, a_request())
        take(store, 1)
        append(store, 1, 2, "x", "y")
        assert [used(store, until) for until in (1, 2, 3)] == [[3, 0], [3, 1], [3, 2]]

    def test_what_comes_again_is_counted_once(self, store: redis.Redis) -> None:
        enqueue(store, a_request())
        take(store, 1)
        append(store, 1, 2, "x", "y")
        before = snapshot(store)
        append(store, 1, 4, "z")
        append(store, 1, 4, "z")  # its reply was lost
        assert used(store, 4) == [3, 3]
        roll_back(store, before)
        append(store, 1, 4, "z")
        assert used(store, 4) == [3, 3]

    def test_events_may_release_many_tokens_or_none(self, store: redis.Redis) -> None:
        enqueue(store, a_request())
        take(store, 1)
        names = (keys.log("msg_1"), keys.meta("msg_1"), keys.owner("msg_1"))
        store.eval(scripts.APPEND, 3, *names, 1, keys.channel("msg_1"), 2, 0, "", 60, "x", "", "y", "7,8,9")
        assert [used(store, until) for until in (2, 3)] == [[3, 0], [3, 3]]

    def test_a_log_without_the_count_says_so(self, store: redis.Redis) -> None:
        enqueue(store, a_request())
        take(store, 1)
        store.hdel(keys.meta("msg_1"), "tokens")
        append(store, 1, 2, "x")
        assert used(store, 2) is None
