"""How steady running streams are while a long prompt arrives."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from asking import TIMEOUT_S
from sides import Side

from config.loadtest.client import converse
from config.loadtest.results import percentile
from config.loadtest.trace import Trace

PATIENCE_S = 120.0
ALONE_S = 4.0
PAUSE_S = 1.0


@dataclass(kw_only=True)
class Stalled:
    """The gaps of the running streams without and with a long prompt beside them. Times in s."""

    alone: list[float] = field(default_factory=list)
    beside: list[float] = field(default_factory=list)
    ttft: list[float] = field(default_factory=list)  # of the long prompts

    @staticmethod
    def ms(seconds: list[float], q: float) -> float:
        return percentile(sorted(seconds), q) * 1000


class Streams:
    """Clients that read one long answer after the other."""

    def __init__(self, side: Side, body: Callable[[], bytes]) -> None:
        self._side, self._body = side, body
        self._traces: list[Trace] = []
        self._marks: list[int] = []

    async def run(self) -> None:
        while True:
            trace = Trace()
            self._traces.append(trace)
            await converse(self._side.server, self._body(), trace, timeout_s=TIMEOUT_S)
            if not trace.done:
                raise RuntimeError(f"a stream of {self._side.name} broke off: {trace.error}")

    def mark(self) -> None:
        """Begin a measurement."""
        self._marks = [len(trace.gaps) for trace in self._traces]

    def gaps(self) -> list[float]:
        """Return the gaps since the mark."""
        marks = self._marks + [0] * (len(self._traces) - len(self._marks))
        return [gap for trace, mark in zip(self._traces, marks, strict=True) for gap in trace.gaps[mark:]]

    async def all_begun(self, count: int) -> None:
        await self._until(lambda: sum(trace.first is not None for trace in self._traces) >= count)

    async def next_tokens(self) -> None:
        """Wait for a token of each stream: a gap that has begun ends with it."""
        waiting = [(trace, trace.deltas) for trace in self._traces if not trace.ended]
        await self._until(lambda: all(trace.deltas > deltas or trace.ended for trace, deltas in waiting))

    async def _until(self, is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not is_so():  # noqa: ASYNC110  # traces tell nobody
                await asyncio.sleep(0.005)


async def stall(side: Side, count: int, stream: Callable[[], bytes], prompts: list[bytes]) -> Stalled:
    """Run so many streams; then send one long prompt after the other."""
    streams, stalled = Streams(side, stream), Stalled()
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(streams.run()) for _ in range(count)]
        await streams.all_begun(count)
        streams.mark()
        await asyncio.sleep(ALONE_S)
        stalled.alone = streams.gaps()
        for prompt in prompts:
            await asyncio.sleep(PAUSE_S)
            streams.mark()
            asked = Trace()
            await converse(side.server, prompt, asked, timeout_s=TIMEOUT_S)
            if not asked.measures:
                raise RuntimeError(f"{side.name} gave no answer to a long prompt: {asked.error}")
            stalled.ttft.append(asked.ttft)
            await streams.next_tokens()
            stalled.beside += streams.gaps()
        for task in tasks:
            task.cancel()
    return stalled
