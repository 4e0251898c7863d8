"""A step that never comes back: end the process, so that another takes its place."""

from __future__ import annotations

import faulthandler
import logging
import os
import threading
from collections.abc import Callable
from types import TracebackType
from typing import NoReturn

logger = logging.getLogger(__name__)

LEASES = 3  # its requests are with another worker after one; what is slow, and not hung, may be back by then
TICKS = 20  # looks within the limit
EXIT_STATUS = 70  # EX_SOFTWARE


class Watchdog:
    """Watches what happens inside its `with`.

    A device that hangs renews no lease, so its requests are safe; but its worker would hold its place for ever. Time
    counts only while this process runs: one that was stopped and is continued has done nothing wrong.
    """

    def __init__(self, limit_s: float, *, end: Callable[[], None] | None = None) -> None:
        """Act when something inside takes longer than `limit_s`."""
        self._tick_s = limit_s / TICKS
        self._end = end or _end_process
        self._turn = 0  # odd while something happens inside
        threading.Thread(target=self._watch, daemon=True, name="watchdog").start()

    def __enter__(self) -> None:
        self._turn += 1

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._turn += 1

    def _watch(self) -> None:
        never = threading.Event()
        seen, ticks = 0, 0
        while ticks < TICKS:
            never.wait(self._tick_s)
            turn = self._turn
            ticks = ticks + 1 if turn == seen and turn % 2 else 0
            seen = turn
        self._end()


def _end_process() -> NoReturn:
    logger.critical("a step of the engine does not come back: this worker ends, so that another takes its place")
    faulthandler.dump_traceback(all_threads=True)
    os._exit(EXIT_STATUS)
