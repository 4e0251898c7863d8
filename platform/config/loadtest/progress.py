"""A line that tells how far a load test is, where a person looks on."""

from __future__ import annotations

import asyncio
import math
from typing import TextIO

from config.loadtest.run import LoadTest

WIDTH = 24
EVERY_S = 0.2


async def show(test: LoadTest, stream: TextIO) -> None:
    """Keep the line up to date until cancelled, then take it away; does nothing where nobody looks on."""
    if not stream.isatty():
        return
    try:
        while True:
            stream.write(f"\r\x1b[K{line(test)}")
            stream.flush()
            await asyncio.sleep(EVERY_S)
    finally:
        stream.write("\r\x1b[K")
        stream.flush()


def line(test: LoadTest) -> str:
    """Return the line as it is now."""
    ended, elapsed = len(test.traces), test.elapsed_s
    filled = math.floor(WIDTH * share(test))
    bar = "█" * filled + "·" * (WIDTH - filled)
    of = "" if test.plan.requests is None else f"/{test.plan.requests}"
    events = test.deltas / elapsed if elapsed else 0.0
    return (
        f"{bar} {ended}{of} ended, {test.running} running, {test.failed} failed, {events:.0f} events/s, {elapsed:.0f} s"
    )


def share(test: LoadTest) -> float:
    """Return how much of the test is done, from 0 to 1."""
    plan = test.plan
    by_count = 0.0 if plan.requests is None else len(test.traces) / plan.requests
    by_time = 0.0 if plan.duration_s is None else test.elapsed_s / plan.duration_s
    return min(1.0, max(by_count, by_time))
