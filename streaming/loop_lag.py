"""How late the event loop is with what is due: whatever holds it up, holds up every stream of the process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

EVERY_S = 0.1


async def watch(tell: Callable[[float], None], *, every_s: float = EVERY_S) -> None:
    """Tell again and again, in seconds, for ever."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + every_s
        await asyncio.sleep(every_s)
        tell(max(0.0, loop.time() - due))
