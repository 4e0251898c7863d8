"""Cancelling streams as an operator, several in two round trips."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import redis

from inference.protocol import keys, scripts

Answer = Literal["asked", "asked before", "ended", "unknown"]


@dataclass(frozen=True, slots=True)
class Asked:
    """What came of one: `outcome` is how it had ended, or what it was cancelled for before."""

    id: str
    answer: Answer
    organization: str = ""
    key: str = ""
    outcome: str = ""


def ask_all(client: redis.Redis, message_ids: Sequence[str]) -> list[Asked]:
    """Ask whoever has messages to end them, as their clients can; what has ended stays as it is."""
    names = ["organization", "key", "cancel", "outcome"]
    with client.pipeline(transaction=False) as pipe:
        for message_id in message_ids:
            pipe.hmget(keys.meta(message_id), names)
        before = pipe.execute()
        for message_id in message_ids:
            pipe.eval(scripts.CANCEL, 1, keys.meta(message_id), "cancelled")
        replies = pipe.execute()
    return [
        _asked(message_id, facts, reply) for message_id, facts, reply in zip(message_ids, before, replies, strict=True)
    ]


def _asked(message_id: str, facts: Sequence[bytes | None], reply: int) -> Asked:
    organization, key, cancel, outcome = ((value or b"").decode() for value in facts)
    answers: dict[int, Answer] = {0: "unknown", 1: "ended", 2: "asked before" if cancel else "asked"}
    return Asked(message_id, answers[reply], organization, key, outcome or cancel)
