"""A message's event log, read and cancelled from a command."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import redis

from inference.protocol import keys, scripts
from inference.protocol.progress import Entry

SLICE = 500  # events that are read at once: a long log in one piece would hold up Redis, and all streams with it
LOOK_AGAIN_S = 1.0


class NoSuchMessage(Exception):
    """Raised for an id that names no message, or one of which nothing is known any more."""


class Expired(Exception):
    """Raised for a message whose log is gone, though it is known that there was one."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How far a log has come; `outcome` is "" while its message runs."""

    last_id: int
    outcome: str


def standing(client: redis.Redis, message_id: str) -> Standing:
    """Return how a message's log stands; raise `NoSuchMessage` or `Expired`."""
    last, outcome = cast(list[bytes | None], client.hmget(keys.meta(message_id), ["last", "outcome"]))
    if last is not None:
        return Standing(int(last), (outcome or b"").decode())
    if client.exists(keys.owner(message_id)):
        raise Expired(f"The stream of {message_id} has expired.")
    raise NoSuchMessage(
        f"There is no message {message_id}, or it was deleted long ago. `manage.py streams --ended` lists what is kept."
    )


def frames(client: redis.Redis, message_id: str, *, first: int = 1) -> Iterator[bytes]:
    """Yield the frames of a log from an event on, byte by byte as they are sent."""
    start = f"{first}-0"
    while entries := cast(list[Entry], client.xrange(keys.log(message_id), min=start, count=SLICE)):
        for _, fields in entries:
            yield fields[b"f"]
        start = f"({entries[-1][0].decode()}"


def ask_to_end(client: redis.Redis, message_id: str) -> None:
    """Ask whoever has a message to end it, as its client can; what has ended stays as it is."""
    client.eval(scripts.CANCEL, 1, keys.meta(message_id), "cancelled")


def wait_for_end(client: redis.Redis, message_id: str, *, patience_s: float) -> Standing:
    """Wait until a message has ended, at most so long; return how it stands then."""
    give_up = time.monotonic() + patience_s
    while True:
        now = standing(client, message_id)
        left_s = give_up - time.monotonic()
        if now.outcome or left_s <= 0:
            return now
        block_ms = max(1, int(min(left_s, LOOK_AGAIN_S) * 1000))
        client.xread({keys.log(message_id): f"{now.last_id}-0"}, block=block_ms, count=1)
