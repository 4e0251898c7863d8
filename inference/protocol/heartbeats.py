"""Heartbeats: what a worker or a gateway tells of itself each second, in a hash by its id."""

from __future__ import annotations

import json
import math
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from typing import Any

FRESH_S = 5.0  # a process that was silent for longer is not counted as there


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """What a process told last, and how long ago: NaN, which is neither fresh nor old, where it cannot be read."""

    process: str
    about: dict[str, Any]
    age_s: float

    @property
    def fresh(self) -> bool:
        return self.age_s < FRESH_S


def read(rows: Mapping[bytes, bytes], now: float) -> list[Heartbeat]:
    """Read a hash of heartbeats, in the order of their ids; `now` is the time of Redis in seconds."""
    return [_read(name.decode(), raw, now) for name, raw in sorted(rows.items())]


def _read(process: str, raw: bytes, now: float) -> Heartbeat:
    try:
        about = json.loads(raw)
        return Heartbeat(process, about, now - float(about["seen_at"]))
    except (ValueError, KeyError, TypeError):
        return Heartbeat(process, {}, math.nan)


def process_id() -> str:
    """Return what this process is called."""
    return f"{socket.gethostname()}-{os.getpid()}"


@cache
def version_of(package: str) -> str:
    """Return which version is installed: read once, since the loop of streams, or of steps, waits for the file."""
    return version(package)


def about_process(started_at: float) -> dict[str, Any]:
    """Return what any process says of itself."""
    return {"host": socket.gethostname(), "pid": os.getpid(), "version": version_of("sluice"), "started_at": started_at}
