"""The console's part of Celery's work."""

from __future__ import annotations

import threading
from typing import Any

from celery import shared_task
from celery.signals import worker_shutting_down

from common.redis import connection
from console.live.maker import Maker, is_watched
from inference.protocol import keys

_stopping = threading.Event()


@shared_task
def tick() -> None:
    """Leave a trace: where it is fresh, beat sends tasks, and a worker runs them."""
    connection().set(keys.CELERY, "1", ex=keys.CELERY_S)


@shared_task
def make_table() -> None:
    """Tell pages of active streams what happens, while there are any."""
    if is_watched(connection()):
        Maker(connection()).run(_stopping)


@worker_shutting_down.connect
def _stop(**_: Any) -> None:
    _stopping.set()
