"""Messages in the queue, claimed, written and ended, as gateways and workers do it."""

from __future__ import annotations

from typing import Any

import redis

from inference.protocol import keys, scripts
from inference.protocol.events import MessageEvents
from inference.protocol.queueing import head_start_ms
from tests.inference.tools import MODEL, a_request, enqueue

QUEUE = (keys.ready(MODEL), keys.payloads(MODEL), keys.leases(MODEL), keys.attempts(MODEL))


def queue(store: redis.Redis, *ids: str, **changes: Any) -> None:
    """Let messages wait."""
    store.sadd(keys.MODELS, MODEL)
    for message_id in ids:
        request = a_request(message_id, **changes)
        enqueue(store, request, head_start_ms=head_start_ms(request.priority), limit=10_000)
        store.zadd(keys.LOGS, {message_id: store.time()[0] * 1000})


def claim(store: redis.Redis, *, worker: str = "w-1") -> tuple[str, int]:
    """Claim the first that waits; return its id and the claim's pen."""
    message_id, _, pen, *_ = store.eval(scripts.CLAIM, 5, *QUEUE, keys.wake(MODEL), 1, 60_000)
    store.eval(scripts.TAKE, 1, keys.meta(message_id.decode()), pen, 0, worker)
    return message_id.decode(), int(pen)


def write(store: redis.Redis, message_id: str, pen: int, *frames: bytes | str, first: int, outcome: str = "") -> None:
    """Append pairs of frame and token ids."""
    head = (pen, keys.channel(message_id), first, 1, outcome, 60)
    names = (keys.log(message_id), keys.meta(message_id), keys.owner(message_id))
    store.eval(scripts.APPEND, 3, *names, *head, *frames)


def begin(store: redis.Redis, message_id: str, pen: int) -> MessageEvents:
    """Write the beginning of a text."""
    events = MessageEvents(last_id=1)
    write(store, message_id, pen, events.start_text(), "", events.text("Hey"), "7,8", first=2)
    return events


def end(store: redis.Redis, message_id: str, pen: int, events: MessageEvents, outcome: str = "end_turn") -> None:
    """Write the end of a text, and settle."""
    first = events.last_id + 1
    reason: Any = "cancelled" if outcome == "cancelled" else "end_turn"
    frames = [events.stop_block(), events.message_delta(stop_reason=reason, usage={}), events.message_stop()]
    write(store, message_id, pen, *(part for frame in frames for part in (frame, "")), first=first, outcome=outcome)
    names = (*QUEUE, keys.settlements(MODEL), keys.outcomes(MODEL))
    store.eval(scripts.SETTLE, 6, *names, message_id, pen, "")
