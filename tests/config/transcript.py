"""A terminal for tests: what was written can be waited for."""

from __future__ import annotations

import asyncio
import io
import os
import select


class Transcript(io.StringIO):
    """Keeps what is written and wakes whoever waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self._changed = asyncio.Event()

    def write(self, text: str) -> int:
        self._changed.set()
        return super().write(text)

    async def until(self, text: str, *, times: int = 1) -> str:
        """Wait until `text` was written so often; return all that was written."""
        try:
            async with asyncio.timeout(60):
                while self.getvalue().count(text) < times:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"{text!r} never came:\n{self.getvalue()}") from None
        return self.getvalue()


def wait_for_end(pid: int) -> None:
    """Wait until a process that need not be our child has ended."""
    try:
        watch = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([watch], [], [], 60)[0], f"process {pid} still runs"
    finally:
        os.close(watch)
