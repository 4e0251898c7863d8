"""Rows as CSV, read and sent bit by bit."""

from __future__ import annotations

import csv
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import date
from io import StringIO
from typing import Any

from asgiref.sync import sync_to_async
from django.db.models import Model, Q, QuerySet
from django.http import StreamingHttpResponse

BATCH = 1000
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")  # what a spreadsheet computes instead of showing it


class CsvResponse(StreamingHttpResponse):
    """A file of any length, in constant memory and without a long transaction; the newest rows come first."""

    def __init__(self, name: str, rows: QuerySet[Any], columns: Sequence[str], *, moment: str) -> None:
        super().__init__(
            _parts(rows, columns, moment),
            content_type="text/csv; charset=utf-8",
            headers={"content-disposition": f'attachment; filename="{name}"', "cache-control": "no-store"},
        )

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Read on as the client takes it; Django would read a synchronous iterator to its end first."""
        parts = iter(self)
        while (part := await sync_to_async(lambda: next(parts, None))()) is not None:
            yield part


def _parts(rows: QuerySet[Any], columns: Sequence[str], moment: str) -> Iterator[str]:
    yield _lines([[column.replace("__", "_") for column in columns]])
    for batch in _batches(rows.order_by(f"-{moment}", "-pk"), moment):
        yield _lines([[cell(_value(row, column)) for column in columns] for row in batch])


def _batches(rows: QuerySet[Any], moment: str) -> Iterator[list[Any]]:
    batch = list(rows[:BATCH])
    while batch:
        yield batch
        last = getattr(batch[-1], moment)
        before = Q(**{f"{moment}__lt": last}) | Q(pk__lt=batch[-1].pk)
        batch = list(rows.filter(before, **{f"{moment}__lte": last})[:BATCH])


def _lines(rows: Sequence[Sequence[str]]) -> str:
    text = StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue()


def _value(row: Model, column: str) -> Any:
    value: Any = row
    for name in column.split("__"):
        value = getattr(value, name, None)
    return value


def cell(value: Any) -> str:
    """Return a value as text that a spreadsheet takes for nothing else."""
    if value is None:
        return ""
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    return str(value)
