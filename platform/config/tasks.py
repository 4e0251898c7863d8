"""Celery's part in the operation of the platform."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from celery import shared_task
from celery.signals import worker_shutting_down
from django.conf import settings

from batches.models import Batch
from common.redis import connection
from config.append_only import is_ours_to_rewrite, rewrite

BATCHES_S = 30.0  # after so long another task goes on with them

_stopping = threading.Event()


@shared_task
def run_batches() -> None:
    """Run the requests of batches for a while, where there are any and nobody does it."""
    if not _stopping.is_set() and Batch.objects.filter(ended_at=None).exists():
        from streaming.batches.runner import run  # brings tokenizers along, so only where there is work

        asyncio.run(run(settings.SLUICE, stopping=_stopping.is_set, for_s=BATCHES_S))


@worker_shutting_down.connect
def _stop(**_: Any) -> None:
    _stopping.set()


@shared_task
def rewrite_append_only_file() -> None:
    """Let what was deleted from Redis be gone from its file, too."""
    if is_ours_to_rewrite(settings.SLUICE):
        rewrite(connection())
