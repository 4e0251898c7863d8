"""`manage.py` itself: in processes of its own, since it sets what belongs to a process."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.environment import ROOT

OPEN = 0o022  # the usual umask, under which everybody reads everything


def run(home: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    ours = {"SLUICE_HOME": str(home), "SLUICE_MODELS": "", "DATABASE_URL": ""}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT, env=os.environ | ours | environment, umask=OPEN, capture_output=True, text=True,
    )  # fmt: skip


def open_to_others(folder: Path) -> list[str]:
    return [str(path) for path in [folder, *folder.rglob("*")] if stat.S_IMODE(path.stat().st_mode) & 0o077]


def test_what_it_writes_is_its_owners_alone(tmp_path: Path) -> None:
    home = tmp_path / "home"
    made = run(home, "manage.py", "createkey", "laptop")
    assert made.stdout.startswith("sk-sluice-"), made.stderr
    assert (home / "sluice.sqlite3").exists()
    assert open_to_others(home) == []


def test_models_are_their_owners_alone(tmp_path: Path) -> None:
    source, home = tmp_path / "tiny", tmp_path / "home"
    source.mkdir()
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        (source / name).touch(mode=0o644)
    made = run(home, "-m", "inference.models", str(source))
    assert made.returncode == 0, made.stderr
    assert (home / "models" / "tiny" / "model.safetensors").exists()
    assert open_to_others(home) == []


@pytest.mark.parametrize(
    ("command", "environment", "complaint"),
    [
        ("serve", {"SLUICE_MAX_BODY_MB": "many"}, "SLUICE_MAX_BODY_MB='many': expected a whole number."),
        ("migrate", {"DATABASE_URL": "postgres://u:p/w@host/db"}, "DATABASE_URL: no port can be read"),
        ("check", {"SLUICE_HOME": "/dev/null/x"}, "SLUICE_HOME='/dev/null/x': cannot keep state there"),
    ],
)
def test_a_wrong_setting_is_one_line(tmp_path: Path, command: str, environment: dict[str, str], complaint: str) -> None:
    done = run(tmp_path, "manage.py", command, **environment)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"Error: {complaint}")
