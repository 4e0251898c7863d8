"""From the reports in Redis to rows in the database: in bulk, idempotent, and nothing lost while the database is away.

A report leaves Redis only after its row is committed. Settlements wait `SETTLE_DELAY_MS` there, so that a message's
delivery is normally merged in the same turn and nobody sees a settled record without its times.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, cast

import redis
from django.db import transaction

from inference.protocol import keys
from inference.protocol.progress import Entry
from inference.protocol.reports import Delivery, Report, Settlement
from records.models import RequestRecord

SETTLE_DELAY_MS = 500
BATCH = 1000

_SETTLEMENT_FIELDS = (
    "outcome", "output_tokens", "attempts", "worker", "finished_at", "queue_ms", "prefill_ms", "generation_ms",
)  # fmt: skip
_DELIVERY_FIELDS = (
    "gateway", "streamed", "ttft_ms", "stream_ms", "tbt_p99_ms", "total_ms", "bytes_sent", "stages",
)  # fmt: skip


def store_reports(client: redis.Redis) -> int:
    """Store one batch of every stream of reports; return how many were read."""
    seconds, micros = client.time()
    settled = f"{seconds * 1000 + micros // 1000 - SETTLE_DELAY_MS}"
    names = sorted(name.decode() for name in cast(set[bytes], client.smembers(keys.MODELS)))
    streams = [(keys.settlements(name), settled, Settlement) for name in names]
    # Deliveries last: whatever settlement was just stored, its delivery is then in the same turn.
    return sum(_store(client, *stream) for stream in [*streams, (keys.DELIVERIES, "+", Delivery)])


def _store(client: redis.Redis, stream: str, until: str, kind: type[Settlement] | type[Delivery]) -> int:
    entries = cast(list[Entry], client.xrange(stream, max=until, count=BATCH))
    if entries:
        merge([kind.decode(fields[b"r"]) for _, fields in entries])
        client.xdel(stream, *(entry_id for entry_id, _ in entries))
    return len(entries)


def merge(reports: Sequence[Report]) -> None:
    """Insert the reports' rows, or update their half of rows that are there."""
    for kind, own_fields in ((Settlement, _SETTLEMENT_FIELDS), (Delivery, _DELIVERY_FIELDS)):
        rows = {report.id: _row(report, own_fields) for report in reports if isinstance(report, kind)}
        if rows:
            with transaction.atomic():
                RequestRecord.objects.bulk_create(
                    rows.values(), update_conflicts=True, unique_fields=["id"], update_fields=own_fields
                )


def _row(report: Report, own_fields: Iterable[str]) -> RequestRecord:
    values: dict[str, Any] = {name: getattr(report, name) for name in own_fields}
    if isinstance(report, Settlement):
        values["finished_at"] = datetime.fromtimestamp(report.finished_at, UTC)
    return RequestRecord(
        id=report.id,
        organization_id=report.organization,
        key_id=report.key,
        model=report.model,
        created_at=datetime.fromtimestamp(report.created_at, UTC),
        input_tokens=report.input_tokens,
        **values,
    )
