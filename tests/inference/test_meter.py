"""How fast a worker is, and how much its prefix cache saves."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, cast
from unittest.mock import patch

from inference.engines.base import StepOutput
from inference.generation import Generation
from inference.meter import Meter
from inference.protocol import keys
from inference.protocol.minutes import read
from inference.protocol.reports import Settlement, common_of
from tests.inference.tools import Bench, a_request, enqueue


@dataclass
class Clock:
    now: float = 100.0

    def __call__(self) -> float:
        return self.now


def settlement(**changes: Any) -> Settlement:
    fields: dict[str, Any] = {
        "outcome": "end_turn", "output_tokens": 2, "attempts": 1, "worker": "w", "finished_at": 2.0, "queue_ms": 5.0,
        "prefill_ms": 20.0, "batch_wait_ms": 6.0, "generation_ms": 100.0,
    }  # fmt: skip
    return Settlement(**common_of(a_request(prompt_ids=(1,) * 40)), **(fields | changes))


def test_it_works() -> None:
    clock = Clock()
    meter = Meter(clock)
    for _ in range(30):
        meter.heard(StepOutput("a", (1, 2)))
    meter.settled(settlement(cached_tokens=30))
    clock.now += 5

    assert meter.about() == {
        "generated_tokens": 60,
        "prompt_tokens": 40,
        "cached_tokens": 30,
        "tokens_per_s": 12.0,
        "prefix_hit_rate": 0.75,
    }


def test_rates_are_those_of_late() -> None:
    clock = Clock()
    meter = Meter(clock)
    meter.heard(StepOutput("a", (1,) * 1000))
    meter.settled(settlement(cached_tokens=40))
    for _ in range(120):
        clock.now += 1
        meter.heard(StepOutput("a", (1, 2)))
        about = meter.about()
    assert (about["tokens_per_s"], about["prefix_hit_rate"]) == (2.0, 0.0)
    assert (about["generated_tokens"], about["cached_tokens"]) == (1240, 40)


def test_a_message_that_was_not_begun_says_nothing_of_the_cache() -> None:
    meter = Meter(Clock())
    meter.settled(settlement(outcome="timeout", prefill_ms=None))

    assert meter.about()["prompt_tokens"] == 0


def test_a_worker_tells_what_it_measured(bench: Bench) -> None:
    enqueue(bench.store, a_request())
    bench.turn()
    bench.turn(StepOutput("msg_1", (1,), "end_of_text", cached_tokens=2))
    bench.worker._beat_due = 0
    bench.turn()

    about = bench.worker.about()
    assert (about["generated_tokens"], about["prompt_tokens"], about["cached_tokens"]) == (1, 3, 2)
    counted = cast(dict[bytes, bytes], bench.store.hgetall(keys.COUNTS))
    stages = {name.split(b"|")[1] for name in counted if name.startswith(b"stage")}
    assert stages == {b"queue", b"batch_wait", b"prefill", b"decode"}
    tokens = {kind: int(counted[b"tokens_total|m|" + kind]) for kind in (b"input", b"cached", b"output")}
    assert tokens == {b"input": 3, b"cached": 2, b"output": 1}
    assert bench.store.hgetall(keys.outcomes("m")) == {b"end_turn": b"1"}


def test_a_settled_message_is_counted_in_its_minute(bench: Bench) -> None:
    bench.worker._meter.settled(settlement(checks={"patterns": 1.5, "toxicity": 2.0}))
    bench.worker._meter.settled(settlement(outcome="timeout", output_tokens=0, prefill_ms=None))
    bench.worker._beat_due = 0
    bench.turn()

    (minute,) = cast(dict[bytes, bytes], bench.store.hgetall(keys.MINUTES_CHANGED))
    ((model, organization, sums),) = read(cast(dict[bytes, bytes], bench.store.hgetall(keys.minute(int(minute)))))
    assert (model, organization) == ("m", a_request().organization)
    assert json.loads(sums) == {
        "outcomes": {"end_turn": 1, "timeout": 1},
        "tokens": {"output": 2},
        "stages": {"queue": 2, "batch_wait": 1, "prefill": 1, "decode": 1, "safety": 1},
        "stages_us": {"queue": 10_000, "batch_wait": 6_000, "prefill": 14_000, "decode": 80_000, "safety": 3_500},
    }


def test_what_is_settled_twice_is_counted_once(bench: Bench) -> None:
    enqueue(bench.store, a_request())
    bench.turn()
    generation = bench.worker._running["msg_1"]
    bench.turn(StepOutput("msg_1", (), "end_of_text"))
    settling = bench.worker._broker.settle(generation.settlement(common_of(generation.request), "w"), generation.pen)
    bench.worker._broker.exchange([settling, settling])

    assert bench.store.hgetall(keys.outcomes("m")) == {b"end_turn": b"1"}


def counted(bench: Bench) -> dict[str, Any]:
    """Have the worker tell what it counted; return that of this minute."""
    bench.worker._beat_due = 0
    bench.turn()
    minutes = cast(dict[bytes, bytes], bench.store.hgetall(keys.MINUTES_CHANGED))
    found = [read(cast(dict[bytes, bytes], bench.store.hgetall(keys.minute(int(minute))))) for minute in minutes]
    return {kind: parts for rows in found for *_, sums in rows for kind, parts in json.loads(sums).items()}


def test_what_ends_before_it_runs_is_counted(bench: Bench) -> None:
    enqueue(bench.store, a_request())
    bench.age(seconds=61)
    bench.turn()
    assert bench.outcomes == ["timeout"]
    assert counted(bench)["outcomes"] == {"timeout": 1}


def test_what_an_heir_settles_is_counted_by_the_heir_alone(bench: Bench) -> None:
    enqueue(bench.store, a_request())
    bench.turn()
    bench.crash_before_settling(StepOutput("msg_1", (1,), "end_of_text"))
    heir = bench.another()
    bench.store.zadd(keys.leases("m"), {"msg_1": 1})
    heir.turn()
    assert bench.worker._meter.minutes.call("w") is None
    assert counted(heir)["outcomes"] == {"end_turn": 1}
    assert counted(heir)["tokens"] == {"output": 1}
    assert bench.store.hget(keys.COUNTS, "retries_total|m") == b"1"


def test_a_worker_tells_what_safety_holds(bench: Bench) -> None:
    enqueue(bench.store, a_request())
    bench.turn()
    assert "held" not in bench.worker.about()
    with patch.object(Generation, "num_waiting", 9):
        assert bench.worker.about()["held"] == [["msg_1", 9]]
