"""What records come to, by day: sums that are kept with each record, so that nobody has to add them up."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from typing import Any

from records.bulk import insert
from records.models import DailyUsage, RequestRecord

Group = tuple[date, str | None, str | None, str, str]

_GROUP = ("day", "organization_id", "key_id", "model", "outcome")
_SUMS = ("requests", "input_tokens", "cached_tokens", "output_tokens")

_TABLE = DailyUsage._meta.db_table
_ON_CONFLICT = (
    "(organization_id, day, key_id, model, outcome) DO UPDATE SET "
    f"{', '.join(f'{name} = {_TABLE}.{name} + excluded.{name}' for name in _SUMS)}"
)


@dataclass(frozen=True, slots=True)
class Usage:
    """What one record adds to the sums of its group."""

    day: date
    organization: str | None
    key: str | None
    model: str
    outcome: str
    sums: tuple[int, int, int, int]

    @property
    def group(self) -> Group:
        return self.day, self.organization, self.key, self.model, self.outcome


def usage_of(row: RequestRecord) -> Usage | None:
    """Return what a record adds; None before it is settled."""
    if not row.outcome:
        return None
    sums = (1, int(row.input_tokens), int(row.cached_tokens), int(row.output_tokens))
    return Usage(row.created_at.date(), row.organization_id, row.key_id, row.model, row.outcome, sums)


def add_usage(usages: Iterable[Usage | None], *, instead_of: Iterable[Usage | None] = ()) -> None:
    """Add to the sums, and take away what was added before, in the transaction that changes the records."""
    changes: defaultdict[Group, list[int]] = defaultdict(lambda: [0] * len(_SUMS))
    for sign, those in ((1, usages), (-1, instead_of)):
        for usage in filter(None, those):
            change = changes[usage.group]
            change[:] = [was + sign * more for was, more in zip(change, usage.sums, strict=True)]
    in_one_order = sorted(changes.items(), key=str)
    rows: list[Any] = [(day.isoformat(), *group, *change) for (day, *group), change in in_one_order if any(change)]
    insert(_TABLE, (*_GROUP, *_SUMS), rows, on_conflict=_ON_CONFLICT)
    if any(change[0] < 0 for change in changes.values()):
        DailyUsage.objects.filter(requests=0, day__in={day for day, *_ in changes}).delete()
