"""The spool: reports that wait in Redis for the database, and those that were set aside because they make no record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import redis

from inference.protocol import keys, scripts
from inference.protocol.progress import Entry

BAD_REPORTS = "sluice:reports:bad"  # stream: what was set aside, whence and why
BAD_KEPT = 100_000  # some 40 MB

_SLICE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Spool:
    """How many reports wait, how long the oldest of them has, and how many were set aside."""

    waiting: int = 0
    oldest_s: float = 0.0
    set_aside: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAside:
    """A report that was set aside; `origin` is the stream that it came by."""

    id: str
    origin: str
    fault: str
    blob: bytes


def streams(models: Iterable[str]) -> list[str]:
    """Return the names of all streams of reports."""
    models = tuple(models)
    return [keys.DELIVERIES, *map(keys.settlements, models), *map(keys.triggers, models)]


def ask(pipe: Any, models: Sequence[str]) -> int:
    """Add to a pipeline what `read` needs; return how many replies these are."""
    for stream in streams(models):
        pipe.xlen(stream)
        pipe.xrange(stream, count=1)
    pipe.xlen(BAD_REPORTS)
    return 2 * len(streams(models)) + 1


def read(replies: Sequence[Any], now: float) -> Spool:
    """Read the replies to `ask`; `now` is the time by Redis in s."""
    *counted, set_aside = replies
    oldest = [_sent_at(entries[0]) for entries in counted[1::2] if entries]
    waited_s = now - min(oldest) if oldest else 0.0
    return Spool(waiting=sum(counted[::2]), oldest_s=max(0.0, waited_s), set_aside=set_aside)


def look(client: redis.Redis) -> Spool:
    """Look at the spool as it is now."""
    models = sorted(name.decode() for name in cast(set[bytes], client.smembers(keys.MODELS)))
    with client.pipeline(transaction=False) as pipe:
        pipe.time()
        ask(pipe, models)
        (seconds, micros), *replies = pipe.execute()
    return read(replies, seconds + micros / 1e6)


def set_aside(client: redis.Redis, entry: Entry, *, origin: str, fault: str) -> None:
    """Set a report aside that will never make a record, so that it does not hold up the others."""
    entry_id, fields = entry
    told: dict[Any, Any] = {"stream": origin, "id": entry_id, "fault": fault} | fields
    arguments = [part for pair in told.items() for part in pair]
    client.eval(scripts.SPOOL, 1, BAD_REPORTS, BAD_KEPT, *arguments)


def reports_set_aside(client: redis.Redis, ids: Iterable[str] = ()) -> Iterator[SetAside]:
    """Yield the reports that were set aside, the oldest first: all, or those of some ids that are there."""
    found = (client.xrange(BAD_REPORTS, name, name) for name in ids) if ids else _slices(client)
    for entries in found:
        yield from map(_read, cast(list[Entry], entries))


def retry(client: redis.Redis, report: SetAside) -> None:
    """Let a report be stored again. One that is sent twice, since we died in between, makes one record all the same."""
    client.eval(scripts.SPOOL, 1, report.origin, 0, "r", report.blob)
    drop(client, report)


def drop(client: redis.Redis, report: SetAside) -> None:
    """Forget a report."""
    client.xdel(BAD_REPORTS, report.id)


def _slices(client: redis.Redis) -> Iterator[Any]:
    start = "-"
    while entries := cast(list[Entry], client.xrange(BAD_REPORTS, min=start, count=_SLICE)):
        yield entries
        start = f"({entries[-1][0].decode()}"


def _read(entry: Entry) -> SetAside:
    entry_id, fields = entry
    return SetAside(
        id=entry_id.decode(),
        origin=fields[b"stream"].decode(),
        fault=fields[b"fault"].decode(),
        blob=fields.get(b"r", b""),
    )


def _sent_at(entry: Entry) -> float:
    return int(entry[0].partition(b"-")[0]) / 1000
