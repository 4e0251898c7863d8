"""`manage.py doctor`."""

from __future__ import annotations

import io
import json
import os
from unittest.mock import patch

import pytest
import redis
from django.core.management import call_command

from console.doctor import examination, stores
from console.doctor.findings import Finding, fail, ok, warn
from console.management.commands import doctor as command

LONG = "A sentence that is so long that it cannot stand in one line of any terminal that is usual, and goes on."


def doctor(*words: str, finds: list[Finding], columns: str = "") -> str:
    out = io.StringIO()
    with patch.object(command, "examine", lambda: iter(finds)), patch.dict(os.environ, {"COLUMNS": columns}):
        call_command("doctor", *words, stdout=out)
    return out.getvalue()


def test_it_works() -> None:
    out = doctor(finds=[ok("python", "3.11.7"), warn("disk", "4 GB free", "Make room.")])
    assert out.splitlines() == ["ok    python         3.11.7", "warn  disk           4 GB free Make room."]


def test_it_fails_where_something_does(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        doctor(finds=[fail("disk", "full", "Make room."), ok("python", "3.11.7")])
    assert end.value.code == 1


@pytest.mark.parametrize("columns", ["80", "120"])
def test_lines_fit_the_terminal(columns: str) -> None:
    lines = doctor(finds=[warn("model", LONG, LONG)], columns=columns).splitlines()
    assert max(map(len, lines)) <= int(columns)
    assert all(line.startswith(" " * 21) for line in lines[1:])


def test_json_has_all() -> None:
    (row,) = json.loads(doctor("--json", finds=[warn("disk", "4 GB free", "Make room.")]))
    assert row == {"name": "disk", "status": "warn", "text": "4 GB free", "advice": "Make room."}


def test_without_redis_the_rest_is_looked_at_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examination, "BEFORE", (lambda: iter([ok("python", "3")]),))
    monkeypatch.setattr(stores, "redis_answers", lambda: "gone")
    assert [(finding.name, finding.status) for finding in examination.examine()] == [
        ("python", "ok"), ("redis", "fail"), ("processes", "warn"),
    ]  # fmt: skip


def test_everything_is_looked_at(db: None, store: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("console.doctor.processes.REPLY_S", 0.05)
    names = [finding.name for finding in examination.examine()]
    expected = (
        "python", "packages", "settings", "secret key", "state", "disk", "open files", "model", "torch", "gpu",
        "database", "redis", "redis clock", "spool", "gateways", "workers", "celery worker",
    )  # fmt: skip
    assert set(expected) <= set(names)
