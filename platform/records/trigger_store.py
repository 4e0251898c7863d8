"""From the triggers in Redis to rows in the database, as `records.store` does with reports."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import cast

import redis
from django.db import transaction

from common.counts import tell, tell_minutes
from inference.protocol import keys
from inference.protocol.metrics import SAFETY_TRIGGERS, Tally
from inference.protocol.minutes import TRIGGERS, MinuteTally
from inference.protocol.reports import Trigger
from records.merging import be_alone
from records.store import arrivals_in, move
from records.triggers import SafetyTrigger

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_HOUR_S = 3600


def store_triggers(client: redis.Redis) -> int:
    """Store one batch of triggers; return how many were read."""
    models = sorted(name.decode() for name in cast(set[bytes], client.smembers(keys.MODELS)))
    arrivals = [arrival for model in models for arrival in arrivals_in(client, keys.triggers(model), Trigger)]
    return move(client, arrivals, partial(insert, client))


def insert(client: redis.Redis, triggers: Sequence[Trigger]) -> set[str]:
    """Insert what is new among triggers, and count that; all or none. Nothing is too late: the set is empty."""
    rows = {trigger.id: _row(trigger) for trigger in triggers}
    with transaction.atomic():
        be_alone()
        known = set(SafetyTrigger.objects.filter(pk__in=rows).values_list("pk", flat=True))
        new = [row for name, row in rows.items() if name not in known]
        SafetyTrigger.objects.bulk_create(new)
    _count(client, new)
    return set()


def _row(trigger: Trigger) -> SafetyTrigger:
    found_at = _EPOCH + timedelta(seconds=trigger.found_at)
    return SafetyTrigger(
        id=trigger.id,
        record_id=trigger.message,
        organization_id=trigger.organization,
        key_id=trigger.key,
        model=trigger.model,
        policy=trigger.policy,
        check_name=trigger.check,
        category=trigger.category,
        action=trigger.action,
        side=trigger.side,
        position=trigger.position,
        score=trigger.score,
        span=trigger.span,
        found_at=found_at,
        hour=int(trigger.found_at // _HOUR_S),
        text=_storable(trigger.text),
        text_until=found_at + timedelta(days=trigger.keep_days) if trigger.text else None,
    )


def _storable(text: str) -> str:
    """Return a text with what PostgreSQL does not take replaced: NUL, and halves of characters."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def _count(client: redis.Redis, rows: Iterable[SafetyTrigger]) -> None:
    tally, minutes = Tally(), MinuteTally()
    for row in rows:
        # A classifier's labels are its maker's: ours is what divides a count's name.
        tally.count(SAFETY_TRIGGERS, row.check_name, row.category.replace("|", "/"), row.action)
        counts = minutes.of(row.model, row.organization_id or "", at=row.found_at.timestamp())
        counts.add(TRIGGERS, f"{row.category} ({row.action})")
    tell(client, "triggers", tally)
    tell_minutes(client, "triggers", minutes)
