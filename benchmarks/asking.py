"""A closed loop of clients on one side, and what they felt."""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain

from processes import busy_s, cpu_s
from sides import Side

from config.loadtest.client import converse
from config.loadtest.results import percentile
from config.loadtest.trace import Trace

TIMEOUT_S = 600.0
SETTLE_S = 2.0  # before a load: a side that has just worked may wait for more without sleeping


@dataclass(kw_only=True)
class Felt:
    """The answers of one side to one load, over all rounds. Times in s."""

    traces: list[Trace] = field(default_factory=list)
    wall_s: float = 0.0
    foreign_s: float = 0.0  # of CPU, used by processes that are neither this side's nor ours

    @property
    def measured(self) -> list[Trace]:
        return [trace for trace in self.traces if trace.measures]

    @property
    def tokens_per_s(self) -> float:
        return sum(trace.tokens or trace.deltas for trace in self.measured) / self.wall_s

    @property
    def foreign(self) -> float:
        """Return the cores that were used by others: the more, the less the figures say."""
        return self.foreign_s / self.wall_s

    def ttft_ms(self, q: float) -> float:
        return _quantile((trace.ttft for trace in self.measured), q)

    def tpot_ms(self, q: float) -> float:
        return _quantile((trace.tpot for trace in self.measured if trace.tpot is not None), q)

    def tbt_ms(self, q: float) -> float:
        return _quantile(chain.from_iterable(trace.gaps for trace in self.measured), q)

    def add(self, other: Felt) -> None:
        self.traces += other.traces
        self.wall_s += other.wall_s
        self.foreign_s += other.foreign_s

    @property
    def errors(self) -> dict[str, int]:
        return dict(Counter(trace.error for trace in self.traces if trace.error))


def _quantile(seconds: Iterable[float], q: float) -> float:
    ordered = sorted(seconds)
    return percentile(ordered, q) * 1000 if ordered else float("nan")


def ask(side: Side, bodies: Iterable[bytes], concurrency: int, felt: Felt) -> None:
    """Send all bodies, so many at once, each client asking again as soon as it was answered."""
    time.sleep(SETTLE_S)
    busy, own, begun = busy_s(), _own_cpu(side), time.perf_counter()
    asyncio.run(_closed_loop(side, iter(bodies), concurrency, felt.traces))
    felt.wall_s += time.perf_counter() - begun
    felt.foreign_s += max(0.0, busy_s() - busy - (_own_cpu(side) - own))


async def _closed_loop(side: Side, bodies: Iterator[bytes], concurrency: int, traces: list[Trace]) -> None:
    async def client() -> None:
        for body in bodies:
            trace = Trace()
            traces.append(trace)
            await converse(side.server, body, trace, timeout_s=TIMEOUT_S)

    async with asyncio.TaskGroup() as clients:
        for _ in range(concurrency):
            clients.create_task(client())


def _own_cpu(side: Side) -> float:
    return cpu_s(os.getpid()) + sum(map(cpu_s, side.pids()))
