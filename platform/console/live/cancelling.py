"""Cancelling streams as an operator, several at once: a look and an act, so that a note of it can stand in between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
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


def look_up(client: redis.Redis, message_ids: Sequence[str]) -> list[Asked]:
    """Return what would come of asking whoever has messages to end them."""
    names = ["organization", "key", "cancel", "outcome", "pen"]
    with client.pipeline(transaction=False) as pipe:
        for message_id in message_ids:
            pipe.hmget(keys.meta(message_id), names)
        found = pipe.execute()
    return [_asked(message_id, facts) for message_id, facts in zip(message_ids, found, strict=True)]


def ask_all(client: redis.Redis, looked_up: Sequence[Asked]) -> list[Asked]:
    """Ask whoever has messages to end them, as their clients can; what has ended meanwhile stays as it is."""
    with client.pipeline(transaction=False) as pipe:
        for one in looked_up:
            pipe.eval(scripts.CANCEL, 1, keys.meta(one.id), "cancelled")
        replies = pipe.execute()
    answers: dict[int, Answer] = {0: "unknown", 1: "ended"}
    return [replace(one, answer=answers.get(reply, one.answer)) for one, reply in zip(looked_up, replies, strict=True)]


def _asked(message_id: str, facts: Sequence[bytes | None]) -> Asked:
    organization, key, cancel, outcome, pen = ((value or b"").decode() for value in facts)
    answer: Answer = "unknown" if not pen else "ended" if outcome else "asked before" if cancel else "asked"
    return Asked(message_id, answer, organization, key, outcome or cancel)
