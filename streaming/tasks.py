"""Tasks that end for certain, and turns that go on whatever happens."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from typing import Any

from redis.exceptions import RedisError

logger = logging.getLogger(__name__)


async def end(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait until they are done; their results and errors are dropped.

    Cancels again where it must: redis-py swallows a cancel that comes while it connects.
    """
    pending = {task for task in tasks if not task.done()}
    while pending:
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=0.1)
    for task in tasks:
        if not task.cancelled():
            task.exception()  # seen, so that asyncio does not complain that nobody looked


async def forever(turn: Callable[[], Awaitable[None]], *, every_s: float, name: str) -> None:
    """Do a turn now and again, for ever. One that fails is logged; the next one comes all the same."""
    while True:
        await asyncio.sleep(every_s)
        try:
            await turn()
        except Exception as error:
            logger.warning("%s: %r", name, error, exc_info=not isinstance(error, RedisError | OSError))
