"""Celery's part in the records."""

from __future__ import annotations

from threading import Lock

from celery import shared_task
from django.conf import settings

from common.redis import connection
from records.pruning import days_ago, prune
from records.store import BATCH, store_reports
from records.trigger_pruning import clear_texts, prune_triggers
from records.trigger_store import store_triggers

PRUNE_S = 30.0  # each time: a thread of the worker is kept from other work for so long

_storing = Lock()  # while much waits, each tick's task would do the same work again, in all of the worker's threads


@shared_task
def store_records() -> None:
    """Move the reports of ended messages from Redis into the database; while that is away they wait."""
    if not _storing.acquire(blocking=False):
        return
    try:
        while store_reports(connection()) >= BATCH:
            pass
        while store_triggers(connection()) >= BATCH:
            pass
    finally:
        _storing.release()


@shared_task
def prune_records() -> None:
    """Delete some of the records that are older than what is kept."""
    if days := settings.SLUICE.records_keep_days:
        prune(days_ago(days), for_s=PRUNE_S)


@shared_task
def prune_safety_triggers() -> None:
    """Clear the texts of triggers whose time is over, and delete triggers as records are."""
    clear_texts()
    if days := settings.SLUICE.records_keep_days:
        prune_triggers(days_ago(days), for_s=PRUNE_S)
