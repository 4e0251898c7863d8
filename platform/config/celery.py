"""The Celery application."""

import logging
import os
import time
from collections.abc import Callable
from typing import Any

from celery import Celery, Task
from django.db import InterfaceError, OperationalError
from redis.exceptions import RedisError

REMIND_S = 60.0

logger = logging.getLogger(__name__)


class PatientTask(Task[..., Any]):
    """A task that costs one line of the log a minute while the database or Redis is away: ours all run again anyway."""

    throws = (OperationalError, InterfaceError, RedisError)  # Celery keeps their tracebacks to itself
    clock: Callable[[], float] = staticmethod(time.monotonic)
    _told_at: float | None = None  # Celery has one object of each task, for all its threads

    def on_failure(self, exc: Exception, *args: Any) -> None:
        now = self.clock()
        if isinstance(exc, self.throws) and (self._told_at is None or now - self._told_at >= REMIND_S):
            self._told_at = now
            who = "Redis" if isinstance(exc, RedisError) else "the database"
            logger.warning("%s waits: %s does not answer: %s", self.name, who, str(exc).partition("\n")[0])

    def on_success(self, *args: Any) -> None:
        self._told_at = None


os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

app = Celery("sluice", task_cls=PatientTask)
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
