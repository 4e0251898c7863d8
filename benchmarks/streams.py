"""A load client in a process of its own: holds streams open and counts what comes.

`gateway.py` starts it. It prints a line once every stream has begun, and one for each line that it reads: the figures
since the last one, as JSON. It ends, and all its streams with it, at the end of its input.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections import Counter
from typing import Any

from config.loadtest.client import Server, body_of, converse
from config.loadtest.results import percentile
from config.loadtest.trace import Trace

PATIENCE_S = 60.0


class Streams:
    """Open streams and their traces."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._server = Server.at(options.url, options.key)
        self._traces: list[Trace] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._since = time.perf_counter()
        self._deltas: dict[int, int] = {}
        self._gaps: dict[int, int] = {}

    async def open(self) -> None:
        """Open all streams, evenly paced, and wait until each has begun or failed."""
        for number in range(self._options.streams):
            self._begin(number)
            await asyncio.sleep(1 / self._options.per_second)
        give_up = time.perf_counter() + PATIENCE_S
        while any(t.first is None and not t.error for t in self._traces):  # traces tell nobody
            if time.perf_counter() > give_up:
                return
            await asyncio.sleep(0.05)

    def figures(self) -> dict[str, Any]:
        """Return what happened since the last call."""
        now = time.perf_counter()
        gaps: list[float] = []
        events = 0
        for number, trace in enumerate(self._traces):
            gaps += trace.gaps[self._gaps.get(number, 0) :]
            events += trace.deltas - self._deltas.get(number, 0)
            self._gaps[number], self._deltas[number] = len(trace.gaps), trace.deltas
        gaps.sort()
        seconds, self._since = now - self._since, now
        return {
            "open": sum(not t.ended and t.first is not None for t in self._traces),
            "events": events,
            "seconds": seconds,
            "tbt_p50_ms": percentile(gaps, 0.5) * 1000 if gaps else None,
            "tbt_p99_ms": percentile(gaps, 0.99) * 1000 if gaps else None,
            "tbt_max_ms": gaps[-1] * 1000 if gaps else None,
            "errors": dict(Counter(trace.error for trace in self._traces if trace.error)),
        }

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _begin(self, number: int) -> None:
        options, trace = self._options, Trace()
        self._traces.append(trace)
        body = body_of(model="default", prompt=f"{options.prompt} #{number}", max_tokens=options.max_tokens)
        task = asyncio.create_task(converse(self._server, body, trace, timeout_s=600))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def main(options: argparse.Namespace) -> None:
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    streams = Streams(options)
    await streams.open()
    print(json.dumps(streams.figures()), flush=True)
    while await lines.readline():
        print(json.dumps(streams.figures()), flush=True)
    await streams.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True)
    parser.add_argument("--key", default="none")
    parser.add_argument("--streams", type=int, required=True)
    parser.add_argument("--per-second", type=float, default=100.0, help="streams opened a second")
    parser.add_argument("--max-tokens", type=int, required=True)
    parser.add_argument("--prompt", default="Write a short story about a lighthouse keeper.")
    asyncio.run(main(parser.parse_args()))
