"""Where messages are, as Redis knows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from redis.asyncio import Redis

from inference.protocol import keys

AT_ONCE = 200


@dataclass(frozen=True, slots=True)
class State:
    """A message: its model, None where it has no log; how it ended; whether it had a log once."""

    model: str | None = None
    outcome: str | None = None
    had_log: bool = False


async def states_of(client: Redis, message_ids: Sequence[str]) -> list[State]:
    """Return where messages are, in the order asked."""
    found: list[State] = []
    for start in range(0, len(message_ids), AT_ONCE):
        found += await _look(client, message_ids[start : start + AT_ONCE])
    return found


async def _look(client: Redis, message_ids: Sequence[str]) -> list[State]:
    async with client.pipeline(transaction=False) as pipe:
        for name in message_ids:
            pipe.hmget(keys.meta(name), ["model", "outcome"])
            pipe.exists(keys.owner(name))
        replies = iter(await pipe.execute())
    return [
        State(model and model.decode(), outcome and outcome.decode(), bool(had_log))
        for (model, outcome), had_log in zip(replies, replies, strict=True)
    ]
