"""`Idempotency-Key`: the same key and body are one message, claimed before any work starts."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import cast

from redis.asyncio import Redis

from accounts.callers import Caller
from common.errors import Conflict, InvalidRequest
from inference.protocol import keys

KEPT_S = 24 * 3600
CLAIM_S = 60  # until its message is queued: whoever dies between does not block the key for a day
LONGEST = 255

# Deletes a claim if it is still the one that was made.
_RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim of an idempotency key; `message_id` is the message that has it, ours or an earlier one's."""

    name: str
    value: str
    message_id: str
    ours: bool


class IdempotencyKeys:
    """Claims of idempotency keys, each within its API key."""

    def __init__(self, client: Redis) -> None:
        self._redis = client

    async def claim(self, caller: Caller, given: str, body: bytes, message_id: str) -> Claim:
        """Claim a key for a message, or find who has it; raise `Conflict` where that had another body."""
        if len(given) > LONGEST:
            raise InvalidRequest(f"idempotency-key: expected at most {LONGEST} characters.")
        name = keys.idempotency(caller.key, hashlib.sha256(given.encode()).hexdigest())
        value = f"{hashlib.sha256(body).hexdigest()}|{message_id}"
        held: bytes | None = None
        while held is None:  # None again only where a claim went between our two looks
            if await self._redis.set(name, value, nx=True, ex=CLAIM_S):
                return Claim(name, value, message_id, ours=True)
            held = cast(bytes | None, await self._redis.get(name))
        found = held.decode()
        if found == value:  # ours, told of a second time because the first answer was lost
            return Claim(name, value, message_id, ours=True)
        digest, _, holder = found.partition("|")
        if digest != value.partition("|")[0]:
            raise Conflict("idempotency-key: this key came before with another body.")
        return Claim(name, found, holder, ours=False)

    async def stands(self, claim: Claim) -> bool:
        """Say whether a claim is still there: its holder may have been refused."""
        return bool(await self._redis.get(claim.name) == claim.value.encode())

    async def keep(self, claim: Claim) -> None:
        """Keep a claim for good: its message is queued."""
        await self._redis.expire(claim.name, KEPT_S)

    async def release(self, claim: Claim) -> None:
        """Give a key back, since its request was refused."""
        await self._redis.eval(_RELEASE, 1, claim.name, claim.value)
