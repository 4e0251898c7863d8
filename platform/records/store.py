"""From the reports in Redis to rows in the database: in bulk, idempotent, and nothing lost while the database is away.

A report leaves Redis only after its row is committed. Settlements wait `SETTLE_DELAY_MS` there and are committed with
the deliveries of their time, so that nobody sees a settled record without its times. A report that will never make a
row is set aside, so that it does not hold up the others.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import redis
from django.core.exceptions import ValidationError
from django.db import DataError, IntegrityError, transaction

from inference.protocol import keys
from inference.protocol.progress import Entry
from inference.protocol.reports import Delivery, Report, Settlement
from records.models import RequestRecord

SETTLE_DELAY_MS = 500
BATCH = 1000
BAD_REPORTS = "sluice:reports:bad"  # stream: what was set aside, whence and why
_BAD_KEPT = 100_000  # some 40 MB

# What one bad report causes, and the absence of a database, or of a table in it, does not.
_REFUSALS = (DataError, IntegrityError, ValidationError, ValueError, TypeError, OverflowError)
_UNREADABLE = (ValueError, TypeError, KeyError, AttributeError, OverflowError)

_SETTLEMENT_FIELDS = (
    "outcome", "output_tokens", "cached_tokens", "attempts", "worker", "finished_at", "queue_ms", "prefill_ms",
    "generation_ms",
)  # fmt: skip
_FIRST_READER_FIELDS = ("gateway", "streamed", "ttft_ms", "stream_ms", "tbt_p99_ms", "total_ms", "stages")
_READERS_FIELDS = ("bytes_sent", "resumes", "readers")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
logger = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class Arrival:
    """A report as it lies in a stream; `fault` says why it cannot be stored."""

    stream: str
    id: bytes
    fields: dict[bytes, bytes]
    report: Report | None = None
    fault: str = ""


def store_reports(client: redis.Redis) -> int:
    """Store one batch of reports; return how many were read."""
    arrivals = _read(client)
    if arrivals:
        _store(arrivals)
        _set_aside(client, [arrival for arrival in arrivals if arrival.fault])
        for stream in {arrival.stream for arrival in arrivals}:
            client.xdel(stream, *(arrival.id for arrival in arrivals if arrival.stream == stream))
    return len(arrivals)


def _read(client: redis.Redis) -> list[Arrival]:
    seconds, micros = client.time()
    now = seconds * 1000 + micros // 1000
    deliveries = _arrivals(client, keys.DELIVERIES, now, Delivery)
    if len(deliveries) == BATCH:
        return deliveries  # there may be more, and no settlement goes before its delivery
    names = sorted(name.decode() for name in cast(set[bytes], client.smembers(keys.MODELS)))
    streams = [_arrivals(client, keys.settlements(name), now - SETTLE_DELAY_MS, Settlement) for name in names]
    return [arrival for stream in (deliveries, *streams) for arrival in stream]


def _arrivals(
    client: redis.Redis, stream: str, until_ms: int, kind: type[Settlement] | type[Delivery]
) -> list[Arrival]:
    entries = cast(list[Entry], client.xrange(stream, max=str(until_ms), count=BATCH))
    return [_decoded(Arrival(stream=stream, id=entry_id, fields=fields), kind) for entry_id, fields in entries]


def _decoded(arrival: Arrival, kind: type[Settlement] | type[Delivery]) -> Arrival:
    try:
        arrival.report = kind.decode(arrival.fields[b"r"])
    except _UNREADABLE as error:
        arrival.fault = f"cannot be read ({type(error).__name__})"
    return arrival


def _store(arrivals: Sequence[Arrival]) -> None:
    """Write all rows in one transaction or, when one will not do, each alone, noting what was refused."""
    try:
        merge([arrival.report for arrival in arrivals if arrival.report])
    except _REFUSALS:
        for arrival in arrivals:
            _store_alone(arrival)


def _store_alone(arrival: Arrival) -> None:
    if arrival.report is None:
        return
    try:
        merge([arrival.report])
    except _REFUSALS as error:
        arrival.fault = f"was refused by the database ({type(error).__name__})"  # the message may quote the row


def _set_aside(client: redis.Redis, arrivals: Iterable[Arrival]) -> None:
    for arrival in arrivals:
        entry = {b"stream": arrival.stream, b"id": arrival.id, b"fault": arrival.fault} | arrival.fields
        client.xadd(BAD_REPORTS, cast(Any, entry), maxlen=_BAD_KEPT, approximate=True)
        name = arrival.report.id if arrival.report else "unknown"
        logger.error(
            "the report %s of message %.60s %s: set aside in %s",
            *(f"{arrival.stream} {arrival.id.decode()}", name, arrival.fault, BAD_REPORTS),
        )


def merge(reports: Sequence[Report]) -> None:
    """Insert the reports' rows, or update their part of rows that are there; all or none.

    The order does not count, nor does how often a report comes.
    """
    settlements = {report.id: report for report in reports if isinstance(report, Settlement)}
    deliveries = [report for report in reports if isinstance(report, Delivery)]
    with transaction.atomic():
        if settlements:
            _write([_settled(report) for report in settlements.values()], _SETTLEMENT_FIELDS)
        if deliveries:
            _merge_deliveries(deliveries)


def _write(rows: Iterable[RequestRecord], fields: Sequence[str]) -> None:
    RequestRecord.objects.bulk_create(
        sorted(rows, key=lambda row: row.id),  # in one order, so that two at once cannot deadlock
        update_conflicts=True, unique_fields=["id"], update_fields=fields,
    )  # fmt: skip


def _settled(report: Settlement) -> RequestRecord:
    values: dict[str, Any] = {name: getattr(report, name) for name in _SETTLEMENT_FIELDS}
    return _row(report, **values | {"finished_at": _time(report.finished_at)})


def _merge_deliveries(deliveries: Sequence[Delivery]) -> None:
    rows = {report.id: _row(report) for report in deliveries}
    _write(
        rows.values(), ("model",)
    )  # changes nothing, but makes a row or holds it: two at once must not lose a reader
    held = RequestRecord.objects.in_bulk(rows)
    for report in deliveries:
        _add_reader(held[report.id], report)
    _write(held.values(), (*_FIRST_READER_FIELDS, *_READERS_FIELDS))


def _add_reader(row: RequestRecord, report: Delivery) -> None:
    """Add a reader to its row: bytes and resumes add up, the times are those of whoever came first."""
    row.readers[report.reader] = [float(report.late_ms), int(report.bytes_sent), int(report.resumed)]
    if report.reader == min(row.readers, key=lambda reader: (row.readers[reader][0], reader)):
        for name in _FIRST_READER_FIELDS:
            setattr(row, name, getattr(report, name))
    row.bytes_sent = sum(size for _, size, _ in row.readers.values())
    row.resumes = sum(resumed for *_, resumed in row.readers.values())


def _row(report: Report, **values: Any) -> RequestRecord:
    return RequestRecord(
        id=report.id,
        organization_id=report.organization,
        key_id=report.key,
        model=report.model,
        created_at=_time(report.created_at),
        input_tokens=report.input_tokens,
        **values,
    )


def _time(seconds: float) -> datetime:
    return _EPOCH + timedelta(seconds=seconds)
