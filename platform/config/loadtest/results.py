"""From traces to figures: percentiles, goodput, targets, errors by type. All times in ms."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain

from config.loadtest.arrivals import Ramp
from config.loadtest.plan import Plan
from config.loadtest.trace import Trace

STEPS = 5  # of a ramp in its report
LIMITED = "http 429"  # a rate limit does its duty: no error of the server's

# What each request has to keep to count as good.
TTFT_MS, TPOT_MS, TBT_P99_MS = 500.0, 20.0, 100.0


def percentile(ordered: Sequence[float], q: float) -> float:
    """Return the least of the ordered values that a share `q` of them does not exceed."""
    assert ordered, "no values have no percentiles"
    return ordered[max(0, math.ceil(q * len(ordered)) - 1)]


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Of one kind of time, in ms."""

    p50: float
    p95: float
    p99: float

    @classmethod
    def of(cls, seconds: Iterable[float]) -> Percentiles | None:
        """Return those of some times in s, None where there are no times."""
        ordered = sorted(seconds)
        return cls(*(round(percentile(ordered, q) * 1000, 2) for q in (0.5, 0.95, 0.99))) if ordered else None


@dataclass(frozen=True, slots=True)
class Target:
    """One objective, and what was measured; `met` when that is below the limit."""

    name: str
    limit: float
    unit: str
    measured: float | None

    @property
    def met(self) -> bool:
        return self.measured is not None and self.measured < self.limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A part of a ramp: what came of the requests that arrived in it."""

    rate: float
    requests: int
    good: int
    failed: int
    ttft_ms: Percentiles | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """All figures of one test. Percentiles are of whole answers to clients that were not slow."""

    requests: int
    done: int
    left: int
    slow: int
    failed: int
    wall_s: float
    requests_per_s: float
    events_per_s: float
    tokens_per_s: float
    good: int
    goodput_per_s: float
    ttft_ms: Percentiles | None
    tpot_ms: Percentiles | None
    tbt_ms: Percentiles | None
    total_ms: Percentiles | None
    targets: list[Target]
    errors: dict[str, int] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)

    @property
    def met(self) -> bool:
        return all(target.met for target in self.targets)


def is_good(trace: Trace) -> bool:
    """Say whether a request kept to all that one request has to keep to."""
    if not trace.measures or trace.ttft * 1000 >= TTFT_MS:
        return False
    if trace.tpot is not None and trace.tpot * 1000 >= TPOT_MS:
        return False
    return not trace.gaps or percentile(sorted(trace.gaps), 0.99) * 1000 < TBT_P99_MS


def results_of(traces: Sequence[Trace], plan: Plan, *, begun: float, wall_s: float) -> Results:
    """Work out the figures of a test."""
    measured = [trace for trace in traces if trace.measures]
    done = sum(trace.done for trace in traces)
    good = sum(map(is_good, traces))
    errors = Counter(trace.error for trace in traces if trace.error)
    seconds = max(wall_s, 1e-9)
    ttft = Percentiles.of(trace.ttft for trace in measured)
    tpot = Percentiles.of(trace.tpot for trace in measured if trace.tpot is not None)
    tbt = Percentiles.of(chain.from_iterable(trace.gaps for trace in measured))
    return Results(
        requests=len(traces),
        done=done,
        left=sum(trace.left for trace in traces),
        slow=sum(trace.behaviour.slow for trace in traces),
        failed=errors.total(),
        wall_s=round(wall_s, 3),
        requests_per_s=round(done / seconds, 2),
        events_per_s=round(sum(trace.deltas for trace in traces) / seconds, 1),
        tokens_per_s=round(sum(_tokens(trace) for trace in traces) / seconds, 1),
        good=good,
        goodput_per_s=round(good / seconds, 2),
        ttft_ms=ttft,
        tpot_ms=tpot,
        tbt_ms=tbt,
        total_ms=Percentiles.of(trace.total for trace in measured),
        targets=_targets(ttft, tpot, tbt, error_rate(traces)),
        errors=dict(errors.most_common()),
        steps=_steps(traces, plan, begun),
    )


def error_rate(traces: Sequence[Trace]) -> float | None:
    """Return the share of errors in %, rate limits, slow readers and clients that left aside."""
    counted = [t for t in traces if not t.left and not t.behaviour.slow and not t.error.startswith(LIMITED)]
    return round(100 * sum(bool(trace.error) for trace in counted) / len(counted), 3) if counted else None


def _targets(
    ttft: Percentiles | None, tpot: Percentiles | None, tbt: Percentiles | None, errors: float | None
) -> list[Target]:
    return [
        Target("TTFT p50", 100.0, "ms", ttft.p50 if ttft else None),
        Target("TTFT p99", TTFT_MS, "ms", ttft.p99 if ttft else None),
        Target("TPOT p50", TPOT_MS, "ms", tpot.p50 if tpot else None),
        Target("TBT p99", TBT_P99_MS, "ms", tbt.p99 if tbt else None),
        Target("errors", 0.1, "%", errors),
    ]


def _tokens(trace: Trace) -> int:
    return trace.deltas if trace.tokens is None else trace.tokens


def _steps(traces: Sequence[Trace], plan: Plan, begun: float) -> list[Step]:
    """Cut a ramp into equal times, so that the rate at which a server gives in can be seen."""
    load, duration = plan.load, plan.duration_s
    if not isinstance(load, Ramp) or duration is None:
        return []
    parts: list[list[Trace]] = [[] for _ in range(STEPS)]
    for trace in traces:
        parts[min(STEPS - 1, int((trace.started - begun) / duration * STEPS))].append(trace)
    return [
        Step(
            rate=round(load.rate_at((number + 0.5) / STEPS), 2),
            requests=len(part),
            good=sum(map(is_good, part)),
            failed=sum(bool(trace.error) for trace in part),
            ttft_ms=Percentiles.of(trace.ttft for trace in part if trace.measures),
        )
        for number, part in enumerate(parts)
    ]
