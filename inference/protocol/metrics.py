"""What is counted where it happens, and added up in Redis: no process dies with it, and any gateway can tell it all.

A count is a whole number under a name made of the metric's, its labels' values and, for histograms, the bucket's bound:
so counts of processes that know other bounds still add up.

No label is a key's or an organisation's: who may see /metrics need not know of customers, and there are too many.
"""

from __future__ import annotations

import time
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import quote, unquote

from inference.protocol import keys, scripts
from inference.protocol.minutes import verdict_on
from inference.protocol.reports import Settlement

SUM = "sum"  # of a histogram, in µs
INFINITY = float("inf")
_AS_IT_IS = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) not in "|%")  # in the name of a count
ADDED_TTL_S = 24 * 3600  # how long a process may take to learn that its counts arrived

Call = tuple[str, tuple[str, str], tuple[str | int, ...]]  # script, keys, arguments


@dataclass(frozen=True, slots=True)
class Metric:
    """A counter, or a histogram of seconds where it has bounds."""

    name: str
    about: str
    labels: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()


# Bounds on both sides of every target.
TTFT = Metric(
    "ttft_seconds",
    "From a request fully received to its first content written.",
    labels=("model",),
    bounds=(0.025, 0.05, 0.075, 0.1, 0.125, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.75, 1, 1.5, 2.5, 5, 10, 30, 60),
)
TPOT = Metric(
    "tpot_seconds",
    "Time per output token after the first, of streams that were read to their end.",
    labels=("model",),
    bounds=(0.005, 0.01, 0.015, 0.02, 0.025, 0.03, 0.04, 0.05, 0.075, 0.1, 0.15, 0.2, 0.5, 1),
)
TBT = Metric(
    "tbt_seconds",
    "Between two writes of content to one client.",
    labels=("model",),
    bounds=(0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.09, 0.1, 0.11, 0.125, 0.15, 0.2, 0.3, 0.5, 1, 2.5, 5, 10),
)
TOTAL = Metric(
    "request_seconds",
    "From a request fully received to the last byte of its answer.",
    labels=("model",),
    bounds=(0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600),
)
STAGE = Metric(
    "stage_seconds",
    "What each stage of a request takes, in the process that does it.",
    labels=("stage",),
    bounds=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
)
ANSWERS = Metric(
    "answers_total",
    "Requests for generation by what they came to: good, bad (with the error's type), or left out of the SLOs.",
    labels=("result", "type"),
)
ERRORS = Metric("errors_total", "Requests that a gateway answered with an error.", labels=("status", "type"))
LIMITED = Metric(
    "limited_total",
    "Requests that a limit had no room for, and refused unless it was in shadow.",
    labels=("level", "limit", "mode"),
)
RESUMES = Metric("resumes_total", "Readers that went on with a stream where an earlier one had been.")
SLOW_CLIENTS = Metric("slow_clients_total", "Streams that were cut since their client did not read them.")
HEARTBEATS = Metric("heartbeats_total", "Pings that were sent while there was nothing else to send.")
BYTES = Metric("sent_bytes_total", "Bytes of answers that were written to clients.")
LOOP_LAG = Metric(
    "loop_lag_seconds",
    "How late a gateway's event loop is with what is due; for so long all of its streams stand still.",
    bounds=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1),
)
TOKENS = Metric(
    "tokens_total",
    "Tokens of messages that have ended: input, cached (of the input, found in a cache), output (released to clients).",
    labels=("model", "kind"),
)
RETRIES = Metric("retries_total", "Attempts after the first at messages that have ended.", labels=("model",))
QUOTA_DRIFT = Metric(
    "quota_drift_tokens_total", "Tokens by which quotas differed from the records, before they were set right."
)
QUOTA_CHECKS = Metric("quota_checks_total", "Comparisons of quotas with the records.", labels=("result",))
SAFETY_TRIGGERS = Metric("safety_triggers_total", "What safety checks found.", labels=("check", "category", "action"))

METRICS = (
    TTFT, TPOT, TBT, TOTAL, STAGE, ANSWERS, ERRORS, LIMITED, RESUMES, SLOW_CLIENTS, HEARTBEATS, BYTES, LOOP_LAG, TOKENS,
    RETRIES, QUOTA_DRIFT, QUOTA_CHECKS, SAFETY_TRIGGERS,
)  # fmt: skip


class Tally:
    """Counts of one process that are not in Redis yet. They go there in numbered batches, each of them once."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._batch: Counter[str] = Counter()
        self._number = time.time_ns() // 1000  # higher than any of a process that had this one's id before

    def count(self, metric: Metric, *labels: str, by: int = 1) -> None:
        """Add to a counter; a first 0 makes it known, which is what an increase is seen from."""
        self._counts[field_of(metric, *labels)] += by

    def observe(self, metric: Metric, seconds: float, *labels: str) -> None:
        """Add a measurement to a histogram."""
        place = bisect_left(metric.bounds, seconds)
        bound = metric.bounds[place] if place < len(metric.bounds) else INFINITY
        self._counts[field_of(metric, *labels, f"{bound:g}")] += 1
        self._counts[field_of(metric, *labels, SUM)] += round(seconds * 1e6)

    def observe_all(self, metric: Metric, seconds: Iterable[float], *labels: str) -> None:
        """Add many measurements, at a cost that does not grow with the number of bounds for each."""
        ordered = sorted(seconds)
        below = 0
        for bound in (*metric.bounds, INFINITY):
            up_to = bisect_right(ordered, bound)
            if up_to > below:
                self._counts[field_of(metric, *labels, f"{bound:g}")] += up_to - below
            below = up_to
        if ordered:
            self._counts[field_of(metric, *labels, SUM)] += round(sum(ordered) * 1e6)

    def answered(self, verdict: str) -> None:
        """Count what a request came to."""
        result, _, kind = verdict.partition(":")
        self.count(ANSWERS, result, kind)

    def settled(self, settlement: Settlement) -> None:
        """Count a message that has ended."""
        if settlement.detached:
            self.answered(verdict_on(settlement.outcome))
        self.count(TOKENS, settlement.model, "input", by=settlement.input_tokens)
        self.count(TOKENS, settlement.model, "cached", by=settlement.cached_tokens)
        self.count(TOKENS, settlement.model, "output", by=settlement.output_tokens)
        self.count(RETRIES, settlement.model, by=max(0, settlement.attempts - 1))

    def call(self, process: str) -> Call | None:
        """Return the call that adds to the counts in Redis what was counted here, the same until `added`."""
        if not self._batch:
            self._batch, self._counts = self._counts, Counter()
            self._number += 1
        counts = [part for pair in self._batch.items() for part in pair]
        names = (keys.COUNTS, keys.counted(process))
        return (scripts.ADD_COUNTS, names, (self._number, ADDED_TTL_S, *counts)) if counts else None

    def added(self) -> None:
        """Note that Redis has the batch."""
        self._batch = Counter()


def field_of(metric: Metric, *parts: str) -> str:
    """Return the name of a count."""
    return "|".join(
        (metric.name, *(quote(part, safe=_AS_IT_IS) if "|" in part or "%" in part else part for part in parts))
    )


def read_field(name: str) -> list[str]:
    """Return what `field_of` was given, the metric by its name."""
    return [unquote(part) if "%" in part else part for part in name.split("|")]
