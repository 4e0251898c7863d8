from __future__ import annotations

from array import array
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.loadtest.arrivals import Closed, Load, Ramp
from config.loadtest.plan import Plan
from config.loadtest.results import Percentiles, Results, is_good, percentile, results_of
from config.loadtest.trace import Behaviour, Trace

values = st.lists(st.floats(-1e6, 1e6), min_size=1)
shares = st.floats(0, 1)
ONE = Closed(1)


def trace(*, ttft: float = 0.05, gaps: Sequence[float] = (0.015,) * 9, started: float = 0.0, error: str = "",
          tokens: int | None = None, slow: bool = False) -> Trace:  # fmt: skip
    first = started + ttft
    last = first + sum(gaps)
    return Trace(started=started, first=first, last=last, ended=last, gaps=array("d", gaps), deltas=len(gaps) + 1,
                 tokens=tokens, terminal=not error, error=error, behaviour=Behaviour(slow=slow))  # fmt: skip


def results(traces: Sequence[Trace], *, load: Load = ONE, duration_s: float | None = None) -> Results:
    plan = Plan(url="http://127.0.0.1:1", key="k", load=load, duration_s=duration_s)
    return results_of(traces, plan, begun=0.0, wall_s=10.0)


@given(values, shares)
def test_a_percentile_is_a_value_with_enough_below_and_not_too_many(given: list[float], q: float) -> None:
    ordered = sorted(given)
    found = percentile(ordered, q)

    assert found in ordered
    assert sum(value <= found for value in ordered) >= q * len(ordered) - 1e-6
    assert sum(value < found for value in ordered) <= q * len(ordered) + 1e-6


@given(values, shares, shares)
def test_percentiles_rise(given: list[float], a: float, b: float) -> None:
    assert percentile(sorted(given), min(a, b)) <= percentile(sorted(given), max(a, b))


def test_percentiles_of_a_hundred() -> None:
    assert Percentiles.of(n / 1000 for n in range(1, 101)) == Percentiles(50, 95, 99)


def test_nothing_has_no_percentiles() -> None:
    assert Percentiles.of([]) is None


@pytest.mark.parametrize(
    ("fields", "good"),
    [
        ({}, True),
        ({"ttft": 0.499}, True),
        ({"ttft": 0.501}, False),
        ({"gaps": (0.021,) * 9}, False),
        ({"gaps": (0.01,) * 99 + (0.5,)}, True),  # one gap in a hundred may be long
        ({"gaps": (0.01,) * 98 + (0.11,) * 2}, False),
        ({"gaps": ()}, True),
        ({"slow": True}, False),
        ({"error": "timeout"}, False),
    ],
)
def test_good_is_what_keeps_to_every_limit(fields: dict[str, object], good: bool) -> None:
    assert is_good(trace(**fields)) is good  # type: ignore[arg-type]  # the fields are those of `trace`


def test_it_works() -> None:
    left = Trace(left=True)
    got = results([*(trace(tokens=20) for _ in range(7)), trace(ttft=0.9), trace(error="timeout"), left])

    assert (got.requests, got.done, got.left, got.failed, got.good) == (10, 8, 1, 1, 7)
    assert (got.requests_per_s, got.goodput_per_s) == (0.8, 0.7)
    assert got.tokens_per_s == (7 * 20 + 10 + 10) / 10
    assert got.errors == {"timeout": 1}
    assert got.ttft_ms is not None
    assert (got.ttft_ms.p50, got.ttft_ms.p99) == (50, 900)


def test_targets_are_met() -> None:
    assert results([trace()]).met


@pytest.mark.parametrize(
    ("missed", "traces"),
    [
        ("TTFT p50", [trace(ttft=0.12)]),
        ("TTFT p99", [*(trace() for _ in range(9)), trace(ttft=0.6)]),
        ("TPOT p50", [trace(gaps=(0.03,) * 9)]),
        ("TBT p99", [trace(gaps=(0.01,) * 9 + (0.11,), tokens=100)]),
        ("errors", [*(trace() for _ in range(9)), trace(error="http 500")]),
    ],
)
def test_a_target_is_missed(missed: str, traces: list[Trace]) -> None:
    got = results(traces)

    assert [target.name for target in got.targets if not target.met] == [missed]
    assert not got.met


def test_rate_limits_slow_readers_and_those_who_left_are_no_errors_of_the_server() -> None:
    bad = [trace(error="http 429 rate_limit_error"), trace(error="connection: reset", slow=True), Trace(left=True)]

    assert results([trace(), *bad]).met


def test_nothing_at_all_meets_nothing() -> None:
    assert not any(target.met for target in results([]).targets)


def test_a_ramp_is_told_step_by_step() -> None:
    traces = [trace(started=second) for second in (0, 1, 5, 9, 9.5)] + [trace(started=10.0, error="timeout")]
    got = results(traces, load=Ramp(0, 10), duration_s=10.0)

    assert [(step.rate, step.requests, step.failed) for step in got.steps] == [
        *((1, 2, 0), (3, 0, 0), (5, 1, 0), (7, 0, 0), (9, 3, 1)),
    ]
