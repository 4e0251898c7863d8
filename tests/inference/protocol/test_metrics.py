"""What is counted where it happens, and added up in Redis."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import redis
from hypothesis import given
from hypothesis import strategies as st

from inference.protocol import keys
from inference.protocol.metrics import ERRORS, METRICS, TBT, TPOT, TTFT, Tally


def add(store: redis.Redis, tally: Tally, process: str = "a") -> int:
    call = tally.call(process)
    assert call is not None
    script, names, arguments = call
    return int(store.eval(script, len(names), *names, *arguments))


def counts_in(store: redis.Redis) -> Mapping[str, int]:
    found = cast(dict[bytes, bytes], store.hgetall(keys.COUNTS))
    return {name.decode(): int(value) for name, value in found.items()}


def test_it_works(store: redis.Redis) -> None:
    one, other = Tally(), Tally()
    for tally, process in ((one, "a"), (other, "b")):
        tally.count(ERRORS, "529", "overloaded_error")
        tally.observe(TTFT, 0.11)
        tally.observe(TTFT, 99.0)
        add(store, tally, process)
        tally.added()

    assert counts_in(store) == {
        "errors_total|529|overloaded_error": 2,
        "ttft_seconds|0.125": 2,
        "ttft_seconds|inf": 2,
        "ttft_seconds|sum": 2 * 99_110_000,
    }


def test_a_batch_whose_reply_was_lost_counts_once(store: redis.Redis) -> None:
    tally = Tally()
    tally.count(ERRORS, "500", "api_error")
    assert add(store, tally) == 1
    tally.count(ERRORS, "500", "api_error")
    assert add(store, tally) == 0, "the same batch again"
    tally.added()
    assert add(store, tally) == 1
    tally.added()

    assert counts_in(store) == {"errors_total|500|api_error": 2}
    assert tally.call("a") is None


def test_a_process_that_starts_again_goes_on_counting(store: redis.Redis) -> None:
    for _ in range(3):
        tally = Tally()
        tally.count(ERRORS, "500", "api_error")
        assert add(store, tally) == 1

    assert counts_in(store) == {"errors_total|500|api_error": 3}


@given(st.lists(st.floats(0, 20)))
def test_many_at_once_are_what_they_are_one_by_one(seconds: list[float]) -> None:
    together, alone = Tally(), Tally()
    together.observe_all(TBT, seconds)
    for each in seconds:
        alone.observe(TBT, each)

    for tally in (together, alone):
        tally._counts.pop("tbt_seconds|sum", None)
    assert together._counts == alone._counts


def test_a_bound_belongs_to_its_bucket() -> None:
    tally = Tally()
    tally.observe_all(TTFT, [0.1, 0.1000001])

    assert tally._counts["ttft_seconds|0.1"] == tally._counts["ttft_seconds|0.125"] == 1


def test_each_target_has_bounds_on_both_sides() -> None:
    for metric, targets in ((TTFT, (0.1, 0.5)), (TPOT, (0.02,)), (TBT, (0.1,))):
        for target in targets:
            place = metric.bounds.index(target)
            assert metric.bounds[place - 1] >= 0.74 * target
            assert metric.bounds[place + 1] <= 1.26 * target
    for metric in METRICS:
        assert list(metric.bounds) == sorted(metric.bounds)
