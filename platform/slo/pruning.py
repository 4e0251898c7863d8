"""Letting go of steps that are finer than their age is worth."""

from __future__ import annotations

import time

from django.conf import settings

from records.pruning import delete_oldest
from slo.models import Load, Rollup
from slo.windows import DAY_S, HOUR_S, MINUTE_S, QUARTER_S, THREE_HOURS_S


def prune(*, now: float | None = None, for_s: float) -> int:
    """Delete some of the rows that are older than what is kept; return how many.

    Finer steps are kept for longer than minutes can wait in Redis (two days): a coarser one is never made of a part.
    """
    now = time.time() if now is None else now
    keep_days = {MINUTE_S: 3, QUARTER_S: 4, HOUR_S: 8, THREE_HOURS_S: settings.SLUICE.records_keep_days}
    gone, end = 0, time.monotonic() + for_s
    for table in (Rollup, Load):
        for step_s, days in keep_days.items():
            if days:
                before = int(now - days * DAY_S) // DAY_S * DAY_S
                old = table.objects.filter(step_s=step_s, start__lt=before)
                gone += delete_oldest(old, "start", for_s=max(0.0, end - time.monotonic()))
    return gone
