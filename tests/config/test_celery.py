from __future__ import annotations

import pytest
import redis
from django.db import OperationalError

from config.celery import REMIND_S, PatientTask, app


@app.task
def fail(error: Exception | None) -> None:
    if error:
        raise error


@pytest.fixture(autouse=True)
def afresh() -> None:
    fail.apply((None,))


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


def test_without_the_database_a_task_takes_one_line(caplog: pytest.LogCaptureFixture) -> None:
    fail.apply((OperationalError("no route\nto host"),))
    assert warnings_of(caplog) == [f"{fail.name} waits: the database does not answer: no route"]
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_without_redis_too(caplog: pytest.LogCaptureFixture) -> None:
    fail.apply((redis.ConnectionError("refused"),))
    assert warnings_of(caplog) == [f"{fail.name} waits: Redis does not answer: refused"]


def test_what_lasts_is_told_now_and_then(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter((1.0, 2.0, REMIND_S, 1.0 + REMIND_S, 2.0 + REMIND_S))
    monkeypatch.setattr(PatientTask, "clock", staticmethod(lambda: next(times)))
    away = OperationalError("away")
    for _ in range(4):
        fail.apply((away,))
    assert len(warnings_of(caplog)) == 2
    fail.apply((None,))
    fail.apply((away,))
    assert len(warnings_of(caplog)) == 3, "it was over in between"


def test_other_errors_have_their_traceback(caplog: pytest.LogCaptureFixture) -> None:
    fail.apply((RuntimeError("broken"),))
    (record,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert record.exc_info
