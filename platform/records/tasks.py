"""Celery's part in the records."""

from __future__ import annotations

from celery import shared_task

from common.redis import connection
from records.store import BATCH, store_reports


@shared_task
def store_records() -> None:
    """Move the reports of ended messages from Redis into the database."""
    while store_reports(connection()) >= BATCH:
        pass
