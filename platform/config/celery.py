"""The Celery application."""

import logging
import os
from typing import Any

from celery import Celery, Task
from django.db import InterfaceError, OperationalError

logger = logging.getLogger(__name__)


class DatabaseTask(Task[..., Any]):
    """A task that a database which is away costs one line of the log: all that we have are run again anyway."""

    throws = (OperationalError, InterfaceError)  # Celery keeps their tracebacks to itself

    def on_failure(self, exc: Exception, *args: Any) -> None:
        if isinstance(exc, self.throws):
            logger.warning("%s: the database does not answer: %s", self.name, str(exc).partition("\n")[0])


os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

app = Celery("sluice", task_cls=DatabaseTask)
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
