"""How much a worker may claim."""

from __future__ import annotations

from dataclasses import replace

from inference.engines.base import EngineStats
from inference.room import FIXED_BYTES, UNLIMITED, Room, Sizes
from tests.inference.tools import Bench, a_request, enqueue

BUSY = EngineStats(running=2, kv_tokens_used=400, kv_tokens_total=1000)


def learned(bytes_per_token: int) -> Sizes:
    sizes = Sizes()
    for _ in range(100):
        sizes.note(FIXED_BYTES + 50 * bytes_per_token, 50)
    return sizes


def test_it_works() -> None:
    room = learned(8).room(3, BUSY)

    assert (room.requests, room.any_size) == (3, False)
    assert abs(room.payload_bytes - 8 * 600) < 50


def test_what_waits_inside_counts() -> None:
    assert learned(8).room(3, replace(BUSY, waiting=1, kv_tokens_wanted=700)).payload_bytes == 0


def test_an_idle_engine_takes_whatever_comes_first() -> None:
    assert learned(8).room(3, EngineStats(kv_tokens_total=1000)).any_size


def test_an_engine_without_a_cache_has_no_limit_but_rows() -> None:
    assert Sizes().room(3, EngineStats(running=1)) == Room(3, UNLIMITED, False)


def test_a_request_for_which_there_is_no_room_is_left_to_another_worker(bench: Bench) -> None:
    enqueue(bench.store, a_request("a"))
    enqueue(bench.store, a_request("b", prompt_ids=(11111,) * 2000))
    enqueue(bench.store, a_request("c"))
    bench.engine.load = BUSY
    bench.turn()
    assert bench.submitted == ["a"], "and nobody overtakes it"

    heir = bench.another()
    heir.turn()
    assert heir.submitted == ["b", "c"]


def test_it_is_taken_when_there_is_room_again(bench: Bench) -> None:
    enqueue(bench.store, a_request("b", prompt_ids=(11111,) * 2000))
    bench.engine.load = BUSY
    bench.turn()
    assert bench.submitted == []
    bench.engine.load = EngineStats(kv_tokens_total=1000)
    bench.turn()
    assert bench.submitted == ["b"]
