"""Celery's part in the accounts."""

from __future__ import annotations

from celery import shared_task

from accounts.uses import BATCH, store_uses
from common.redis import connection


@shared_task
def store_last_uses() -> None:
    """Write down when keys were last used."""
    while store_uses(connection()) >= BATCH:
        pass
