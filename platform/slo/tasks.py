"""Celery's part in the objectives."""

from __future__ import annotations

from threading import Lock

from celery import shared_task

from common.redis import connection
from slo import pruning, rolling, sampling

PRUNE_S = 30.0  # each time: a thread of the worker is kept from other work for so long

_rolling = Lock()  # after a long absence of the database, each tick's task would do the same work again


@shared_task
def roll_up() -> None:
    """Store what has been counted; while the database is away it waits in Redis."""
    if not _rolling.acquire(blocking=False):
        return
    try:
        rolling.roll_up(connection())
    finally:
        _rolling.release()


@shared_task
def sample() -> None:
    """Look at workers, queues and gateways."""
    sampling.sample(connection())


@shared_task
def prune() -> None:
    """Delete some of what is older than what is kept."""
    pruning.prune(for_s=PRUNE_S)
