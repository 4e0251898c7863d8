"""From reports to rows: a message's reports come in any order, any number of times, and make one record."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connection, connections, transaction

from inference.protocol.reports import Delivery, Report, Settlement
from records.bulk import insert
from records.models import RequestRecord, Retention
from records.usage import add_usage, usage_of

_SETTLEMENT_FIELDS = (
    "outcome", "output_tokens", "cached_tokens", "attempts", "worker", "queue_ms", "prefill_ms",
    "batch_wait_ms", "generation_ms", "checks", "held_tokens", "held_ms",
)  # fmt: skip
_FIRST_READER_FIELDS = ("gateway", "streamed", "ttft_ms", "stream_ms", "tbt_p99_ms", "total_ms", "stages")
_MERGED_FIELDS = (*_SETTLEMENT_FIELDS, "finished_at", *_FIRST_READER_FIELDS, "bytes_sent", "resumes", "readers")

_COLUMNS = RequestRecord._meta.concrete_fields
_NAMES = [field.attname for field in _COLUMNS]
_ON_CONFLICT = f"(id) DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in _MERGED_FIELDS)}"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LOCK = 0x51_0C_E0  # of PostgreSQL's advisory locks


def merge(reports: Sequence[Report]) -> set[str]:
    """Insert the reports' rows, or update their part of rows that are there, and what they come to; all or none.

    Return the ids of messages whose records may have been pruned, which are left out: they would be counted again.
    """
    if not reports:
        return set()
    with transaction.atomic():
        be_alone()
        late = _too_late(reports)
        _merge([report for report in reports if report.id not in late])
    return late


def be_alone(lock: int = _LOCK) -> None:
    """Let nobody else merge until this transaction ends: what is read here is to be changed by us only.

    On SQLite a transaction has the database for itself from its beginning.
    """
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [lock])


def _too_late(reports: Iterable[Report]) -> set[str]:
    since = Retention.objects.values_list("since", flat=True).first()
    return {report.id for report in reports if _time(report.created_at) < since} if since else set()


def _merge(reports: Sequence[Report]) -> None:
    rows = RequestRecord.objects.in_bulk({report.id for report in reports})
    before = [usage_of(row) for row in rows.values()]
    for report in reports:
        if report.id not in rows:
            rows[report.id] = _row(report)
        row = rows[report.id]
        if isinstance(report, Settlement):
            _settle(row, report)
        elif isinstance(report, Delivery):
            _add_reader(row, report)
    _write(sorted(rows.values(), key=lambda row: row.id))
    add_usage([usage_of(row) for row in rows.values()], instead_of=before)


def _write(rows: Iterable[RequestRecord]) -> None:
    database = connections[DEFAULT_DB_ALIAS]
    values = [[field.get_db_prep_save(getattr(row, field.attname), database) for field in _COLUMNS] for row in rows]
    insert(RequestRecord._meta.db_table, _NAMES, values, on_conflict=_ON_CONFLICT)


def _row(report: Report) -> RequestRecord:
    return RequestRecord(
        id=report.id,
        organization_id=report.organization,
        key_id=report.key,
        model=report.model,
        created_at=_time(report.created_at),
        input_tokens=report.input_tokens,
    )


def _settle(row: RequestRecord, report: Settlement) -> None:
    for name in _SETTLEMENT_FIELDS:
        setattr(row, name, _to_us(getattr(report, name)))
    row.finished_at = _time(report.finished_at)


def _add_reader(row: RequestRecord, report: Delivery) -> None:
    """Add a reader to its row: bytes and resumes add up, the times are those of whoever came first."""
    row.readers[report.reader] = [float(report.late_ms), int(report.bytes_sent), int(report.resumed)]
    if report.reader == min(row.readers, key=lambda reader: (row.readers[reader][0], reader)):
        for name in _FIRST_READER_FIELDS:
            setattr(row, name, _to_us(getattr(report, name)))
    row.bytes_sent = sum(size for _, size, _ in row.readers.values())
    row.resumes = sum(resumed for *_, resumed in row.readers.values())


def _to_us(value: Any) -> Any:
    """Cut ms off behind the µs: no clock of ours tells more, but people have to read it."""
    return round(value, 3) if isinstance(value, float) else value


def _time(seconds: float) -> datetime:
    return _EPOCH + timedelta(seconds=seconds)
