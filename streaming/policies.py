"""Which definition a safety policy's name stands for now, as `safety.publishing` tells."""

from __future__ import annotations

import asyncio
import logging
from typing import cast

from redis.asyncio import Redis
from redis.exceptions import RedisError

from common.errors import Unavailable
from inference.protocol.policies import CURRENT, OFF

PATIENCE_S = 2.0

logger = logging.getLogger(__name__)


class Policies:
    """The digests by name, refreshed in the background; while Redis is away, those that were known last."""

    def __init__(self, client: Redis) -> None:
        self._redis = client
        self._current: dict[str, str] = {}

    async def refresh(self) -> None:
        """Read what the names stand for."""
        async with asyncio.timeout(PATIENCE_S):
            found = cast(dict[bytes, bytes], await self._redis.hgetall(CURRENT))
        self._current = {name.decode(): digest.decode() for name, digest in found.items()}

    async def reference(self, name: str) -> str:
        """Return what a message under a policy carries; raise `Unavailable` where nobody knows what to check."""
        if name == OFF:
            return OFF
        if name not in self._current:  # it may be as new as the key that has it
            try:
                await self.refresh()
            except (RedisError, OSError) as error:
                logger.warning("what %s stands for cannot be asked: %r", name, error)
        if name not in self._current:
            message = f"The safety policy {name} cannot be found now. Try again shortly."
            raise Unavailable(message, headers={"retry-after": "5"})
        return f"{name}@{self._current[name]}"
