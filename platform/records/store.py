"""From the reports in Redis to rows in the database: in bulk, idempotent, and nothing lost while the database is away.

A report leaves Redis only after its row is committed. Settlements wait `SETTLE_DELAY_MS` there and are committed with
the deliveries of their time, so that nobody sees a settled record without its times. A report that will never make a
row is set aside, so that it does not hold up the others.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import redis
from django.core.exceptions import ValidationError
from django.db import DataError, IntegrityError

from inference.protocol import keys
from inference.protocol.progress import Entry
from inference.protocol.reports import Delivery, Report, Settlement, Trigger
from records.merging import merge
from records.spool import BAD_REPORTS as BAD_REPORTS
from records.spool import set_aside

SETTLE_DELAY_MS = 500
BATCH = 1000

# What one bad report causes, and the absence of a database, or of a table in it, does not.
_REFUSALS = (DataError, IntegrityError, ValidationError, ValueError, TypeError, OverflowError)
_UNREADABLE = (ValueError, TypeError, KeyError, AttributeError, OverflowError)

Kind = type[Settlement] | type[Delivery] | type[Trigger]
Write = Callable[[Any], set[str]]  # of reports; returns the ids of those that come too late

logger = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class Arrival:
    """A report as it lies in a stream; `fault` says why it cannot be stored."""

    stream: str
    id: bytes
    fields: dict[bytes, bytes]
    kind: Kind
    report: Report | Trigger | None = None
    fault: str = ""


def store_reports(client: redis.Redis) -> int:
    """Store one batch of reports; return how many were read."""
    return move(client, _read(client), merge)


def move(client: redis.Redis, arrivals: Sequence[Arrival], write: Write) -> int:
    """Have arrivals written, then take them out of Redis, and set aside what was refused; return how many they are."""
    if arrivals:
        _store(arrivals, write)
        _set_aside(client, [arrival for arrival in arrivals if arrival.fault])
        for stream in {arrival.stream for arrival in arrivals}:
            client.xdel(stream, *(arrival.id for arrival in arrivals if arrival.stream == stream))
    return len(arrivals)


def _read(client: redis.Redis) -> list[Arrival]:
    seconds, micros = client.time()
    now = seconds * 1000 + micros // 1000
    deliveries = arrivals_in(client, keys.DELIVERIES, Delivery, until_ms=now)
    if len(deliveries) == BATCH:
        return deliveries  # there may be more, and no settlement goes before its delivery
    names = sorted(name.decode() for name in cast(set[bytes], client.smembers(keys.MODELS)))
    until_ms = now - SETTLE_DELAY_MS
    streams = [arrivals_in(client, keys.settlements(name), Settlement, until_ms=until_ms) for name in names]
    return [arrival for stream in (deliveries, *streams) for arrival in stream]


def arrivals_in(client: redis.Redis, stream: str, kind: Kind, *, until_ms: int | None = None) -> list[Arrival]:
    """Return a batch of what lies in a stream, the oldest first."""
    entries = cast(list[Entry], client.xrange(stream, max="+" if until_ms is None else str(until_ms), count=BATCH))
    return [_decoded(Arrival(stream=stream, id=entry_id, fields=fields, kind=kind)) for entry_id, fields in entries]


def _decoded(arrival: Arrival) -> Arrival:
    try:
        arrival.report = arrival.kind.decode(arrival.fields[b"r"])
    except _UNREADABLE as error:
        arrival.fault = f"cannot be read ({type(error).__name__})"
    return arrival


def _store(arrivals: Sequence[Arrival], write: Write) -> None:
    """Write all rows in one transaction or, when one will not do, each alone, noting what was refused."""
    try:
        late = write([arrival.report for arrival in arrivals if arrival.report])
    except _REFUSALS as error:
        if len(arrivals) > 1:
            for arrival in arrivals:
                _store([arrival], write)
        else:
            arrivals[0].fault = f"was refused by the database ({type(error).__name__})"  # the message may quote the row
        return
    for arrival in arrivals:
        if arrival.report and arrival.report.id in late:
            arrival.fault = "came when the records of its time had been pruned"


def _set_aside(client: redis.Redis, arrivals: Iterable[Arrival]) -> None:
    for arrival in arrivals:
        set_aside(client, (arrival.id, _without_text(arrival)), origin=arrival.stream, fault=arrival.fault)
        name = arrival.report.id if arrival.report else "unknown"
        logger.error(
            "the report %s of message %.60s %s: set aside in %s",
            *(f"{arrival.stream} {arrival.id.decode()}", name, arrival.fault, BAD_REPORTS),
        )


def _without_text(arrival: Arrival) -> dict[bytes, bytes]:
    """Return what is kept of a report: of a trigger no text, since nobody clears it there when its time is over."""
    if arrival.kind is not Trigger:
        return arrival.fields
    try:
        return {b"r": json.dumps(json.loads(arrival.fields[b"r"]) | {"text": ""}).encode()}
    except _UNREADABLE:
        return {b"r": b""}  # where the text is in it cannot be told
