"""The messages that are open or queued now: O(messages), in few round trips, without their prompts or answers.

What is in a queue or held by a worker is in the queues' sorted sets; the rest of it in each message's meta hash. Those
that have ended are only in the list of all logs, which is far longer, and so they are read apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import redis

from inference.protocol import heartbeats, keys
from inference.protocol.closeups import CloseUps, close_ups

AT_ONCE = 500  # messages in one round trip: some ms of Redis' time
LISTED_AT_ONCE = 5000  # ids
LEAST_S = 0.5  # a pace over less says little

State = Literal["queued", "prefill", "decoding", "held", "slow", "resumable", "cancelling", "ended"]

_META = (
    "organization", "key", "model", "opened", "spent_ms", "input_tokens", "tokens", "last", "bytes", "readers",
    "read_until", "cancel", "outcome", "worker", "ended", "gateway", "first_ms", "ended_ms",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveStream:
    """A message. `organization` and `key` are ids; `worker` is "" where none is at it, `gateway` where nobody reads it.

    `held` says that safety holds its tokens back, `slow` that a reader takes nothing of what is written for it;
    `resumable` that it runs without a reader, who may come back for it; a detached message that nobody has begun to
    read has no reader either, and just runs.
    """

    id: str
    organization: str
    key: str
    model: str
    state: State
    worker: str
    gateway: str
    input_tokens: int
    output_tokens: int  # released to its log
    events: int
    bytes: int  # of its log
    came_ms: float  # when its request did, by the clock of Redis
    age_s: float  # since then, up to its end
    ttft_s: float | None  # from then to its first released tokens
    tokens_per_s: float  # since these
    unsent: int  # events that the slowest of its slow readers has not been sent yet
    held_tokens: int  # that wait for safety
    attempt: int  # how often a worker has begun it
    readers: int
    outcome: str  # "" while it runs; where it was cancelled, what for
    turn: float | None = None  # its score in its model's queue, while it waits there: the lowest is next
    prefilled: float | None = None  # the part of its prompt that is computed, while its worker tells


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a message stands: waiting in a model's queue, held by one of its workers, or in neither."""

    id: str
    model: str
    turn: float | None = None
    held: bool = False


@dataclass(frozen=True, slots=True)
class Picture:
    """What there is at one moment: no more than were asked for, and how many there are in all."""

    streams: list[LiveStream]
    total: int
    queues: dict[str, int]  # how many wait for each model
    at_ms: float  # by the clock of Redis


def open_streams(client: redis.Redis) -> list[LiveStream]:
    """Return all messages that wait or run: first those that run, the oldest first, then queues in their order."""
    return picture(client).streams


def picture(client: redis.Redis, *, most: int | None = None) -> Picture:
    """Return what `open_streams` does, but no more than so many: those that wait the longest are left out last."""
    models = sorted(name.decode() for name in cast(set[bytes], client.smembers(keys.MODELS)))
    with client.pipeline(transaction=False) as pipe:
        _ask_for_close_ups(pipe)
        for model in models:
            pipe.zrange(keys.leases(model), 0, -1)
            pipe.zrange(keys.ready(model), 0, -1, withscores=True)
        (seconds, micros), gateways, workers, *found = pipe.execute()
    held = [_Place(id.decode(), model, held=True) for model, ids in zip(models, found[::2], strict=True) for id in ids]
    running = {place.id for place in held}
    waiting = [
        _Place(id.decode(), model, turn=turn)
        for model, line in zip(models, found[1::2], strict=True)
        for id, turn in line
        if id.decode() not in running  # one claimed in between is held
    ]
    places = [*held, *sorted(waiting, key=lambda place: (place.turn, place.id))]
    looked_up = places[:most]
    streams = [  # one that has just ended is held until it is settled
        stream
        for stream in _look_up(client, looked_up, _close_ups(gateways, workers, seconds))
        if stream.state != "ended"
    ]
    streams.sort(key=_in_order)
    queues = Counter(place.model for place in waiting)
    return Picture(streams, len(places) - len(looked_up) + len(streams), queues, seconds * 1000 + micros / 1000)


def _in_order(stream: LiveStream) -> tuple[bool, float, str]:
    """Put those that run first, the oldest first, then those that wait, in the order of their queues."""
    if stream.state == "queued" and stream.turn is not None:
        return True, stream.turn, stream.id
    return False, stream.came_ms, stream.id


def place_in_queue(client: redis.Redis, stream: LiveStream) -> tuple[int, int] | None:
    """Return the place of one that waits, from 1, and of how many; None where it does not wait."""
    with client.pipeline(transaction=False) as pipe:
        pipe.zrank(keys.ready(stream.model), stream.id)
        pipe.zcard(keys.ready(stream.model))
        ahead, number = pipe.execute()
    return None if ahead is None else (ahead + 1, number)


def _ask_for_close_ups(pipe: Any) -> None:
    pipe.time()
    pipe.hgetall(keys.GATEWAYS)
    pipe.hgetall(keys.WORKERS)


def _close_ups(gateways: Mapping[bytes, bytes], workers: Mapping[bytes, bytes], now: float) -> CloseUps:
    return close_ups(_fresh(gateways, now), _fresh(workers, now))


def _fresh(rows: Mapping[bytes, bytes], now: float) -> list[dict[str, Any]]:
    return [beat.about for beat in heartbeats.read(rows, now) if beat.fresh]


def ended_streams(client: redis.Redis) -> Iterator[LiveStream]:
    """Return the messages that have ended and can still be read again, the last to come first."""
    ids: dict[bytes, None] = {}  # each once, though new ones push the others down
    start = 0
    while page := cast(list[bytes], client.zrevrange(keys.LOGS, start, start + LISTED_AT_ONCE - 1)):
        ids |= dict.fromkeys(page)
        start += len(page)
    found = _look_up(client, [_Place(id.decode(), "") for id in ids], CloseUps())
    return (stream for stream in found if stream.state == "ended")


def find_stream(client: redis.Redis, message_id: str) -> LiveStream | None:
    """Return one message, None where there is none or its log is gone."""
    return next(iter(find_streams(client, [message_id])), None)


def find_streams(client: redis.Redis, message_ids: Sequence[str]) -> list[LiveStream]:
    """Return messages by their ids, without those of which there is nothing; in three round trips."""
    with client.pipeline(transaction=False) as pipe:
        for message_id in message_ids:
            pipe.hget(keys.meta(message_id), "model")
        models = pipe.execute()
        there = [(name, model.decode()) for name, model in zip(message_ids, models, strict=True) if model is not None]
        _ask_for_close_ups(pipe)
        for name, model in there:
            pipe.zscore(keys.leases(model), name)
            pipe.zscore(keys.ready(model), name)
        (seconds, _), gateways, workers, *scores = pipe.execute()
    places = [
        _Place(name, model, turn=turn, held=leased is not None)
        for (name, model), leased, turn in zip(there, scores[::2], scores[1::2], strict=True)
    ]
    return list(_look_up(client, places, _close_ups(gateways, workers, seconds)))


def _look_up(client: redis.Redis, places: Sequence[_Place], seen: CloseUps) -> Iterator[LiveStream]:
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
                yield _stream(place, dict(zip(_META, meta, strict=True)), attempts[place.id], now_ms, seen)


def _stream(place: _Place, meta: dict[str, bytes | None], attempt: int, now_ms: float, seen: CloseUps) -> LiveStream:
    read_until = _number(meta, "read_until")
    readers = _number(meta, "readers") if read_until > now_ms else 0  # a gateway that died took none of them off
    came_ms = _number(meta, "opened") - _number(meta, "spent_ms")
    first_ms, until_ms = _number(meta, "first_ms"), _number(meta, "ended_ms") or now_ms
    tokens, events = _number(meta, "tokens"), _number(meta, "last")
    blocked = seen.blocked.get(place.id) if readers > 0 else None
    held_tokens = seen.held.get(place.id, 0)
    return LiveStream(
        id=place.id,
        organization=_text(meta, "organization"),
        key=_text(meta, "key"),
        model=_text(meta, "model"),
        state=_state(
            place, meta, unread=read_until > 0 and readers <= 0, slow=blocked is not None, held=held_tokens > 0
        ),
        worker=_text(meta, "worker") if place.held else "",
        gateway=_text(meta, "gateway") if readers > 0 else "",
        input_tokens=_number(meta, "input_tokens"),
        output_tokens=tokens,
        events=events,
        bytes=_number(meta, "bytes"),
        came_ms=came_ms,
        age_s=max(0.0, (until_ms - came_ms) / 1000),
        ttft_s=(first_ms - came_ms) / 1000 if first_ms else None,
        tokens_per_s=pace(tokens, (until_ms - first_ms) / 1000) if first_ms else 0.0,
        unsent=max(0, events - blocked.cursor) if blocked else 0,
        held_tokens=held_tokens,
        attempt=attempt,
        readers=max(0, readers),
        outcome=_text(meta, "outcome") or _text(meta, "cancel"),
        turn=place.turn,
        prefilled=None if tokens else seen.prefilled.get(place.id),
    )


def pace(tokens: int, seconds: float) -> float:
    """Return tokens per second; 0 before there is a time to speak of."""
    return tokens / seconds if seconds >= LEAST_S else 0.0


def _state(place: _Place, meta: dict[str, bytes | None], *, unread: bool, slow: bool, held: bool) -> State:
    if meta["ended"] is not None:
        return "ended"
    if meta["cancel"] is not None:
        return "cancelling"
    if place.turn is not None:
        return "queued"
    if slow:
        return "slow"
    if unread:
        return "resumable"
    if held:
        return "held"
    return "decoding" if _number(meta, "tokens") else "prefill"


def _text(meta: dict[str, bytes | None], name: str) -> str:
    return (meta[name] or b"").decode()


def _number(meta: dict[str, bytes | None], name: str) -> int:
    return int(meta[name] or 0)
