"""Celery's part in the quotas."""

from __future__ import annotations

from celery import shared_task
from django.conf import settings

from common.redis import connection
from quotas.reconcile import forget_old_periods, reconcile


@shared_task
def reconcile_quotas() -> None:
    """Compare what was counted with the records."""
    reconcile(connection(), settings.SLUICE)


@shared_task
def forget_periods() -> None:
    """Drop sums that no limit looks at any more."""
    forget_old_periods(connection())
