"""Folders and files: who may use them, what room is left, which models are there."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from django.conf import settings

from console.doctor.findings import Finding, fail, ok, warn
from inference.models import DEFAULT_MODEL, missing_files

GB = 1e9
LEAST_FREE = 1 * GB
LITTLE_FREE = 5 * GB


def others_may(path: Path) -> bool:
    """Say whether anybody but its owner may read or write something."""
    return bool(stat.S_IMODE(path.stat().st_mode) & 0o077)


def home() -> Iterator[Finding]:
    """Look at the folder of all state."""
    yield judge_home(settings.SLUICE.home_path)


def judge_home(path: Path) -> Finding:
    """Judge who may use a folder."""
    if not path.is_dir():
        return fail("state", f"{path} is no folder.", "Make it, or set SLUICE_HOME.")
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        return fail("state", f"{path} cannot be written.", f"Run: chown -R {os.geteuid()} {path}")
    open_ones = [one for one in (path, *path.glob("sluice.sqlite3*"), *path.glob("redis")) if others_may(one)]
    # In a home that is closed nobody gets at the files, whatever their own modes say.
    if open_ones and others_may(path):
        return warn("state", f"{path} is open to others, with prompts and answers in it.", f"Run: chmod 700 {path}")
    return ok("state", f"{path}, for its owner alone")


def model() -> Iterator[Finding]:
    """Look at the model that workers here would serve."""
    name, models = settings.SLUICE.model, settings.SLUICE.models_path
    if not os.access(models, os.R_OK | os.X_OK):
        yield fail("model", f"{models} is not there, or cannot be read.", f"Run: manage.py fetch_model{_source(name)}")
    elif missing := missing_files(models / name):
        yield fail(
            "model", f"{models / name} lacks {', '.join(missing)}.", f"Run: manage.py fetch_model{_source(name)}"
        )
    else:
        yield ok("model", str(models / name))


def _source(name: str) -> str:
    return "" if name == DEFAULT_MODEL else f" OWNER/{name}"


def disk() -> Iterator[Finding]:
    """Look at the room on the disks of the state and of the models."""
    places = (settings.SLUICE.home_path, settings.SLUICE.models_path)
    by_device = {path.stat().st_dev: path for path in reversed(places) if path.exists()}
    for path in by_device.values():
        usage = shutil.disk_usage(path)
        yield judge_disk(path, free=usage.free, total=usage.total)


def judge_disk(path: Path, *, free: int, total: int) -> Finding:
    """Judge the room on a disk, in bytes."""
    text = f"{free / GB:.1f} of {total / GB:.0f} GB free at {path}"
    advice = "Make room: the database and Redis' append-only file stop where there is none."
    if free < LEAST_FREE:
        return fail("disk", text, advice)
    return warn("disk", text, advice) if free < LITTLE_FREE else ok("disk", text)
