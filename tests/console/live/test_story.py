"""What happened to a stream."""

from __future__ import annotations

import redis

from console.live.story import story_of
from console.live.streams import find_stream
from inference.protocol import keys, scripts
from tests.console.tools import QUEUE, begin, claim, queue
from tests.inference.tools import MODEL


def told(store: redis.Redis) -> list[tuple[str, str]]:
    stream = find_stream(store, "msg_1")
    assert stream is not None
    return [(moment.what, moment.more) for moment in story_of(store, stream)]


def test_it_works(store: redis.Redis) -> None:
    queue(store, "msg_1")
    store.hset(keys.meta("msg_1"), "spent_ms", 250)
    assert told(store) == [("Its request came", ""), ("It was put into the queue", "")]
    begin(store, *claim(store))
    assert told(store)[2:] == [("A worker took it", "by w-1"), ("Its first tokens were released", "")]
    stream = find_stream(store, "msg_1")
    assert stream is not None
    assert [moment.after for moment in story_of(store, stream)][:2] == ["0 ms", "250 ms"]


def test_a_second_attempt_is_told(store: redis.Redis) -> None:
    queue(store, "msg_1")
    _, pen = claim(store)
    store.eval(scripts.RELEASE, 5, *QUEUE, keys.wake(MODEL), "msg_1", pen)
    store.hincrby(keys.meta("msg_1"), "opened", -5000)
    claim(store, worker="w-2")
    assert told(store)[2:] == [("A worker took it", ""), ("It was taken again", "by w-2, attempt 2")]
