from __future__ import annotations

import pytest
from django.db import OperationalError

from config.celery import app


@app.task
def fail(error: Exception) -> None:
    raise error


def test_without_the_database_a_task_takes_one_line(caplog: pytest.LogCaptureFixture) -> None:
    fail.apply((OperationalError("no route\nto host"),))
    (record,) = [record for record in caplog.records if record.levelname == "WARNING"]
    assert record.getMessage() == f"{fail.name}: the database does not answer: no route"
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_other_errors_have_their_traceback(caplog: pytest.LogCaptureFixture) -> None:
    fail.apply((RuntimeError("broken"),))
    (record,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert record.exc_info
