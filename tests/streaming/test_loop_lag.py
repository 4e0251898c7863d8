"""How late the event loop is."""

from __future__ import annotations

import asyncio
import time

from streaming import loop_lag
from streaming.tasks import end


async def test_it_works() -> None:
    lags: asyncio.Queue[float] = asyncio.Queue()
    watching = asyncio.create_task(loop_lag.watch(lags.put_nowait, every_s=0.01))
    try:
        assert await asyncio.wait_for(lags.get(), 5) >= 0
        time.sleep(0.2)  # what holds the loop up  # noqa: ASYNC251
        while await asyncio.wait_for(lags.get(), 5) < 0.1:
            pass
    finally:
        await end([watching])
