"""What is open now, as Redis has it."""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import patch

import pytest
import redis

from console.live.streams import (
    LiveStream,
    ended_streams,
    find_stream,
    find_streams,
    open_streams,
    picture,
    place_in_queue,
)
from inference.protocol import keys, scripts
from inference.protocol.closeups import blocked_field, held_field
from inference.protocol.opening import first_frame, opening
from tests.console.tools import QUEUE, begin, claim, end, queue, write
from tests.inference.tools import MODEL, SETTINGS, a_request


def only(store: redis.Redis) -> LiveStream:
    (stream,) = open_streams(store)
    return stream


def test_it_works(store: redis.Redis) -> None:
    queue(store, "msg_1", "msg_2")
    first, pen = claim(store)
    begin(store, first, pen)
    running, waiting = open_streams(store)
    assert (running.id, running.state, running.worker, running.attempt) == ("msg_1", "decoding", "w-1", 1)
    assert (running.output_tokens, running.input_tokens, running.events) == (2, 3, 3)
    assert (running.organization, running.key, running.model) == ("org_1", "key_1", MODEL)
    assert (waiting.id, waiting.state, waiting.worker, waiting.attempt) == ("msg_2", "queued", "", 0)


def test_one_without_tokens_is_in_its_prefill(store: redis.Redis) -> None:
    queue(store, "msg_1")
    claim(store)
    assert only(store).state == "prefill"


def test_one_handed_back_has_no_worker(store: redis.Redis) -> None:
    queue(store, "msg_1")
    _, pen = claim(store)
    store.eval(scripts.RELEASE, 5, *QUEUE, keys.wake(MODEL), "msg_1", pen)
    assert (only(store).state, only(store).worker, only(store).attempt) == ("queued", "", 1)


def test_one_whose_reader_left_can_be_resumed(store: redis.Redis) -> None:
    queue(store, "msg_1")
    begin(store, *claim(store))
    names = (keys.meta("msg_1"), keys.owner("msg_1"))
    store.eval(scripts.JOIN, 2, *names, "org_1", 60_000)
    assert (only(store).state, only(store).readers) == ("decoding", 1)
    store.eval(scripts.LEAVE, 1, keys.meta("msg_1"), 60_000, "")
    assert (only(store).state, only(store).readers) == ("resumable", 0)


def test_readers_of_a_gateway_that_died_do_not_count(store: redis.Redis) -> None:
    queue(store, "msg_1")
    begin(store, *claim(store))
    store.hset(keys.meta("msg_1"), mapping={"readers": 1, "read_until": 1})
    assert (only(store).state, only(store).readers) == ("resumable", 0)


def test_one_that_was_asked_to_end_says_so(store: redis.Redis) -> None:
    queue(store, "msg_1")
    store.eval(scripts.CANCEL, 1, keys.meta("msg_1"), "client_gone")
    assert (only(store).state, only(store).outcome) == ("cancelling", "client_gone")


def test_its_age_counts_from_its_request(store: redis.Redis) -> None:
    queue(store, "msg_1")
    store.hset(keys.meta("msg_1"), mapping={"opened": store.time()[0] * 1000 - 90_000, "spent_ms": 2000})
    assert 91 <= only(store).age_s < 94


def test_what_has_ended_is_read_apart(store: redis.Redis) -> None:
    queue(store, "msg_1", "msg_2")
    name, pen = claim(store)
    end(store, name, pen, begin(store, name, pen))
    assert [stream.id for stream in open_streams(store)] == ["msg_2"]
    (ended,) = ended_streams(store)
    assert (ended.id, ended.state, ended.outcome, ended.worker) == ("msg_1", "ended", "end_turn", "")


def test_what_has_ended_and_is_not_settled_yet_is_not_open(store: redis.Redis) -> None:
    queue(store, "msg_1", "msg_2")
    name, pen = claim(store)
    write(store, name, pen, begin(store, name, pen).stop_block(), "", first=4, outcome="end_turn")
    now = picture(store)
    assert ([stream.id for stream in now.streams], now.total) == (["msg_2"], 1)
    assert [stream.id for stream in ended_streams(store)] == [name]


def test_those_that_wait_stand_in_the_order_of_their_queue(store: redis.Redis) -> None:
    queue(store, "msg_1", "msg_2")
    queue(store, "msg_3", priority="priority")
    queue(store, "msg_4", priority="batch")
    claim(store)
    now = picture(store)
    assert [stream.id for stream in now.streams] == ["msg_3", "msg_1", "msg_2", "msg_4"]
    assert now.queues == {MODEL: 3}
    assert [place_in_queue(store, stream) for stream in now.streams] == [None, (1, 3), (2, 3), (3, 3)]


def test_how_far_a_prompt_is(store: redis.Redis) -> None:
    queue(store, "msg_1")
    name, pen = claim(store)
    beat(store, keys.WORKERS, "w-1", {"model": MODEL, "prefills": [["msg_1", 30, 120], ["msg_2", 0, 0]]})
    assert (only(store).state, only(store).prefilled) == ("prefill", 0.25)
    begin(store, name, pen)
    assert (only(store).state, only(store).prefilled) == ("decoding", None)


def test_one_whose_log_was_lost_is_left_out(store: redis.Redis) -> None:
    queue(store, "msg_1")
    store.delete(keys.meta("msg_1"), keys.log("msg_1"))
    assert open_streams(store) == []
    assert list(ended_streams(store)) == []


def test_an_empty_redis_has_none(store: redis.Redis) -> None:
    assert open_streams(store) == []
    assert find_stream(store, "msg_1") is None


@pytest.mark.parametrize("claims", [0, 1])
def test_one_is_found_by_its_id(store: redis.Redis, claims: int) -> None:
    queue(store, "msg_1", "msg_2")
    for _ in range(claims):
        claim(store)
    found = find_stream(store, "msg_1")
    assert found is not None
    assert (found.id, found.state) == ("msg_1", "prefill" if claims else "queued")


def test_2000_cost_few_round_trips(store: redis.Redis) -> None:
    ids = [f"msg_{i}" for i in range(2000)]
    queue(store, *ids)
    for _ in range(10):
        claim(store)
    execute = redis.client.Pipeline.execute
    trips = []

    def counting(pipe: redis.client.Pipeline, *args: bool) -> list[object]:
        trips.append(len(pipe.command_stack))
        return execute(pipe, *args)

    with patch.object(redis.client.Pipeline, "execute", counting):
        found = open_streams(store)
    assert {stream.id for stream in found} == set(ids)
    assert sum(stream.state == "prefill" for stream in found) == 10
    assert len(trips) == 5, "one for the queues, one for each 500"
    assert max(trips) <= 502


def test_it_is_told_who_serves_its_readers(store: redis.Redis) -> None:
    queue(store, "msg_1")
    names = (keys.meta("msg_1"), keys.owner("msg_1"))
    store.eval(scripts.JOIN, 2, *names, "org_1", 60_000, "g-1")
    assert only(store).gateway == "g-1"
    store.eval(scripts.LEAVE, 1, keys.meta("msg_1"), 60_000, "")
    assert only(store).gateway == ""


def test_its_first_tokens_and_its_end_have_their_times(store: redis.Redis) -> None:
    queue(store, "msg_1")
    name, pen = claim(store)
    store.hset(keys.meta(name), "spent_ms", 250)
    assert (only(store).ttft_s, only(store).tokens_per_s) == (None, 0.0)
    events = begin(store, name, pen)
    ttft_s = only(store).ttft_s
    assert ttft_s is not None
    assert 0.25 <= ttft_s < 5
    store.hincrby(keys.meta(name), "first_ms", -1000)
    assert 0 < only(store).tokens_per_s <= 2
    end(store, name, pen, events)
    ended = find_stream(store, name)
    assert ended is not None
    assert ended.ttft_s == ttft_s - 1
    assert 0.25 <= ended.age_s < 5


def beat(store: redis.Redis, names: str, process: str, about: dict[str, Any]) -> None:
    store.eval(scripts.BEAT, 1, names, process, json.dumps(about))


def test_a_reader_that_takes_nothing_makes_it_slow(store: redis.Redis) -> None:
    queue(store, "msg_1")
    begin(store, *claim(store))
    store.eval(scripts.JOIN, 2, keys.meta("msg_1"), keys.owner("msg_1"), "org_1", 60_000, "g-1")
    beat(store, keys.GATEWAYS, "g-1", {"active_streams": 1, **blocked_field([("msg_1", 1, 4.0)])})
    assert (only(store).state, only(store).unsent) == ("slow", 2)


def test_what_safety_holds_is_told(store: redis.Redis) -> None:
    queue(store, "msg_1")
    claim(store)
    beat(store, keys.WORKERS, "w-1", {"model": MODEL, **held_field([("msg_1", 12)])})
    assert (only(store).state, only(store).held_tokens) == ("held", 12)


def test_no_more_are_looked_up_than_asked_for(store: redis.Redis) -> None:
    queue(store, "msg_1", "msg_2", "msg_3")
    claim(store)
    seen = picture(store, most=2)
    assert ([stream.id for stream in seen.streams], seen.total) == (["msg_1", "msg_2"], 3)
    assert seen.at_ms > 1e12


def test_several_are_found_by_their_ids(store: redis.Redis) -> None:
    queue(store, "msg_1", "msg_2")
    assert [stream.id for stream in find_streams(store, ["msg_2", "msg_none", "msg_1"])] == ["msg_2", "msg_1"]
    assert find_streams(store, []) == []


def test_whoever_opens_it_serves_its_first_reader(store: redis.Redis) -> None:
    request = a_request("msg_1")
    script, names, arguments = opening(request, SETTINGS, first_frame(request), lease_ms=60_000, gateway="g-1")
    store.eval(script, len(names), *names, *arguments)
    found = find_stream(store, "msg_1")
    assert found is not None
    assert (found.gateway, found.readers) == ("g-1", 1)
