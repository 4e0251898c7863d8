"""Who runs the requests of batches: one process at a time, and another soon after that one has died."""

from __future__ import annotations

import secrets

from redis.asyncio import Redis

from inference.protocol import keys

LEASE_MS = 10_000

# KEYS pump  ARGV token, lease_ms
_RENEW = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0"
# KEYS pump  ARGV token
_RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"


class Lease:
    """One process' turn. Should two ever run at once, they do the same work twice, and it counts once."""

    def __init__(self, client: Redis) -> None:
        self._redis, self._token = client, secrets.token_hex(8)

    async def take(self) -> bool:
        """Take the lease; False while another process has it."""
        return bool(await self._redis.set(keys.PUMP, self._token, nx=True, px=LEASE_MS))

    async def renew(self) -> bool:
        """Keep it; False when it is lost."""
        return bool(await self._redis.eval(_RENEW, 1, keys.PUMP, self._token, LEASE_MS))

    async def release(self) -> None:
        """Leave it to others."""
        await self._redis.eval(_RELEASE, 1, keys.PUMP, self._token)
