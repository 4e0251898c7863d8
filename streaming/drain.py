"""A graceful stop: new work is refused, open streams go on, those that are left are told farewell in time."""

from __future__ import annotations

import asyncio

from common.errors import Unavailable
from inference.protocol.events import frame
from inference.protocol.progress import Progress

CLOSING_S = 1.0  # of the budget, for clients to close after the farewell


class Drain:
    """The state of a stop: `begun`, then `over` when the farewell is due."""

    def __init__(self, budget_s: float) -> None:
        self.begun = False
        self.over = asyncio.Event()
        self._budget_s = budget_s
        self._open = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def __enter__(self) -> None:
        """Count a stream as open."""
        self._open += 1
        self._idle.clear()

    def __exit__(self, *_: object) -> None:
        self._open -= 1
        if not self._open:
            self._idle.set()

    @property
    def open(self) -> int:
        """How many streams are open."""
        return self._open

    def refuse_new_work(self) -> None:
        """Raise `Unavailable` once the stop has begun."""
        if self.begun:
            raise Unavailable("This server is stopping.", headers={"retry-after": "2", "connection": "close"})

    async def run(self) -> None:
        """Stop: wait for open streams within the budget, say farewell, wait a moment for them to close."""
        self.begun = True
        closing = min(CLOSING_S, self._budget_s / 2)
        await self._until_idle(self._budget_s - closing)
        self.over.set()
        await self._until_idle(closing)

    async def _until_idle(self, timeout: float) -> None:
        try:
            async with asyncio.timeout(timeout):
                await self._idle.wait()
        except TimeoutError:
            pass


def farewell(progress: Progress) -> bytes:
    """Return the last frames of a stream that its gateway cannot serve to its end; none has an id.

    A cut tool call stays open and an error follows, since clients take a closed one for a whole call.
    """
    if progress.open_block == "tool_use":
        return frame("error", {"error": {"type": "api_error", "message": "The server is stopping."}})
    usage = {"input_tokens": progress.input_tokens, "output_tokens": len(progress.token_ids)}
    delta = {"stop_reason": "server_shutdown", "stop_sequence": None}
    stop = frame("content_block_stop", {"index": progress.blocks - 1}) if progress.open_block else b""
    return stop + frame("message_delta", {"delta": delta, "usage": usage}) + frame("message_stop", {})
