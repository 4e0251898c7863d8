"""A graceful stop: new work is refused, open streams go on, those that are left are told in time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from common.errors import Unavailable

CLOSING_S = 3.0  # of the budget, at most half: for the farewell and clients that close after it, and all that follows


class Drain:
    """The state of a stop: `begun`, then `over` when the farewell is due."""

    def __init__(self, budget_s: float) -> None:
        self.begun = False
        self.over = asyncio.Event()
        self.open = 0
        self._budget_s = budget_s
        self._idle = asyncio.Event()
        self._idle.set()

    @contextmanager
    def new_work(self) -> Iterator[None]:
        """Count what would create work; raise `Unavailable` once the stop has begun."""
        if self.begun:
            raise stopping()
        with self.old_work():
            yield

    @contextmanager
    def old_work(self) -> Iterator[None]:
        """Count a reader of what is there already: it is served during a stop, too."""
        self.open += 1
        self._idle.clear()
        try:
            yield
        finally:
            self.open -= 1
            if not self.open:
                self._idle.set()

    async def run(self) -> None:
        """Stop: wait for open streams within the budget, say farewell, wait a moment for them to close.

        Half of what is kept back for the closing is left then: for the server to end what is still open, and to close.
        """
        self.begun = True
        closing = min(CLOSING_S, self._budget_s / 2)
        await self._until_idle(self._budget_s - closing)
        self.over.set()
        await self._until_idle(closing / 2)

    async def _until_idle(self, timeout: float) -> None:
        try:
            async with asyncio.timeout(timeout):
                await self._idle.wait()
        except TimeoutError:
            pass


def stopping() -> Unavailable:
    """Return the error of a request that comes, or is still unanswered, when this server stops."""
    return Unavailable("This server is stopping.", headers={"retry-after": "2", "connection": "close"})
