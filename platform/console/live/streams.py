"""The messages that are open or queued now: O(messages), in few round trips, without their prompts or answers.

What is in a queue or held by a worker is in the queues' sorted sets; the rest of it in each message's meta hash. Those
that have ended are only in the list of all logs, which is far longer, and so they are read apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, cast

import redis

from inference.protocol import keys

AT_ONCE = 500  # messages in one round trip: some ms of Redis' time
LISTED_AT_ONCE = 5000  # ids

State = Literal["queued", "prefill", "decoding", "resumable", "cancelling", "ended"]

_META = (
    "organization", "key", "model", "opened", "spent_ms", "input_tokens", "tokens", "last", "bytes", "readers",
    "read_until", "cancel", "outcome", "worker", "ended",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveStream:
    """A message. `organization` and `key` are ids; `worker` is "" where none is at it.

    `resumable` says that it runs without a reader, who may come back for it; a detached message that nobody has begun
    to read has no reader either, and just runs.
    """

    id: str
    organization: str
    key: str
    model: str
    state: State
    worker: str
    input_tokens: int
    output_tokens: int  # released to its log
    events: int
    bytes: int  # of its log
    age_s: float  # since its request came
    attempt: int  # how often a worker has begun it
    readers: int
    outcome: str  # "" while it runs; where it was cancelled, what for


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a message stands: waiting in a model's queue, held by one of its workers, or in neither."""

    id: str
    model: str
    waits: bool = False
    held: bool = False


def open_streams(client: redis.Redis) -> list[LiveStream]:
    """Return all messages that wait or run: first those that run, the oldest first, then queues in their order."""
    models = sorted(name.decode() for name in cast(set[bytes], client.smembers(keys.MODELS)))
    with client.pipeline(transaction=False) as pipe:
        for model in models:
            pipe.zrange(keys.leases(model), 0, -1)
            pipe.zrange(keys.ready(model), 0, -1)
        found = pipe.execute()
    held = [_Place(id.decode(), model, held=True) for model, ids in zip(models, found[::2], strict=True) for id in ids]
    waiting = [
        _Place(id.decode(), model, waits=True) for model, ids in zip(models, found[1::2], strict=True) for id in ids
    ]
    places = {place.id: place for place in (*waiting, *held)}  # one that was claimed in between is held
    streams = _look_up(client, list(places.values()))
    return sorted(streams, key=lambda stream: (1, 0.0) if stream.state == "queued" else (0, -stream.age_s))


def ended_streams(client: redis.Redis) -> Iterator[LiveStream]:
    """Return the messages that have ended and can still be read again, the last to come first."""
    ids: dict[bytes, None] = {}  # each once, though new ones push the others down
    start = 0
    while page := cast(list[bytes], client.zrevrange(keys.LOGS, start, start + LISTED_AT_ONCE - 1)):
        ids |= dict.fromkeys(page)
        start += len(page)
    found = _look_up(client, [_Place(id.decode(), "") for id in ids])
    return (stream for stream in found if stream.state == "ended")


def find_stream(client: redis.Redis, message_id: str) -> LiveStream | None:
    """Return one message, None where there is none or its log is gone."""
    model = cast(bytes | None, client.hget(keys.meta(message_id), "model"))
    if model is None:
        return None
    name = model.decode()
    with client.pipeline(transaction=False) as pipe:
        pipe.zscore(keys.leases(name), message_id)
        pipe.zscore(keys.ready(name), message_id)
        leased, waiting = pipe.execute()
    place = _Place(message_id, name, waits=waiting is not None, held=leased is not None)
    return next(_look_up(client, [place]), None)


def _look_up(client: redis.Redis, places: Sequence[_Place]) -> Iterator[LiveStream]:
    for start in range(0, len(places), AT_ONCE):
        some = places[start : start + AT_ONCE]
        of_model = {model: [place.id for place in some if place.model == model] for model in {p.model for p in some}}
        with client.pipeline(transaction=False) as pipe:
            pipe.time()
            for model, ids in of_model.items():
                pipe.hmget(keys.attempts(model), ids)
            for place in some:
                pipe.hmget(keys.meta(place.id), _META)
            (seconds, micros), *rows = pipe.execute()
        now_ms = seconds * 1000 + micros / 1000
        attempts = {
            id: int(count or 0)
            for ids, counts in zip(of_model.values(), rows[: len(of_model)], strict=True)
            for id, count in zip(ids, counts, strict=True)
        }
        for place, meta in zip(some, rows[len(of_model) :], strict=True):
            if meta[0] is not None:  # else it expired, or Redis lost it: a gateway sees to that
                yield _stream(place, dict(zip(_META, meta, strict=True)), attempts[place.id], now_ms)


def _stream(place: _Place, meta: dict[str, bytes | None], attempt: int, now_ms: float) -> LiveStream:
    read_until = _number(meta, "read_until")
    readers = _number(meta, "readers") if read_until > now_ms else 0  # a gateway that died took none of them off
    return LiveStream(
        id=place.id,
        organization=_text(meta, "organization"),
        key=_text(meta, "key"),
        model=_text(meta, "model"),
        state=_state(place, meta, unread=read_until > 0 and readers <= 0),
        worker=_text(meta, "worker") if place.held else "",
        input_tokens=_number(meta, "input_tokens"),
        output_tokens=_number(meta, "tokens"),
        events=_number(meta, "last"),
        bytes=_number(meta, "bytes"),
        age_s=max(0.0, (now_ms - _number(meta, "opened") + _number(meta, "spent_ms")) / 1000),
        attempt=attempt,
        readers=max(0, readers),
        outcome=_text(meta, "outcome") or _text(meta, "cancel"),
    )


def _state(place: _Place, meta: dict[str, bytes | None], *, unread: bool) -> State:
    if meta["ended"] is not None:
        return "ended"
    if meta["cancel"] is not None:
        return "cancelling"
    if place.waits:
        return "queued"
    if unread:
        return "resumable"
    return "decoding" if _number(meta, "tokens") else "prefill"


def _text(meta: dict[str, bytes | None], name: str) -> str:
    return (meta[name] or b"").decode()


def _number(meta: dict[str, bytes | None], name: str) -> int:
    return int(meta[name] or 0)
