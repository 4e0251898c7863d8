"""Celery's part in keeping batches. The one that runs them is in `config.tasks`."""

from __future__ import annotations

from celery import shared_task

from batches.pruning import archive_old_batches


@shared_task
def archive_batches() -> None:
    """Delete the results of old batches."""
    archive_old_batches()
