"""What runs: gateways and workers by their heartbeats, Celery by its last task, Redis by its own account."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import redis

from console.durations import short
from inference.protocol import heartbeats, keys
from inference.protocol.heartbeats import Heartbeat

CELERY_LATE_S = 15.0  # it ticks each few seconds


@dataclass(frozen=True, slots=True)
class Share:
    """What is taken of a whole; a whole of 0 is one without a limit, or one that nobody knows."""

    used: float
    total: float

    @property
    def percent(self) -> float:
        return min(100.0, 100 * self.used / self.total) if self.total else 0.0


class Process:
    """A heartbeat with names for what it tells. A process of another version may tell less."""

    def __init__(self, beat: Heartbeat, kind: str, now: float) -> None:
        self.id, self.kind = beat.process, kind
        self.about, self.age_s, self.fresh = beat.about, beat.age_s, beat.fresh
        self._now = now

    @property
    def draining(self) -> bool:
        return bool(self.about.get("draining"))

    @property
    def started_at(self) -> float | None:
        found = self.about.get("started_at")
        return float(found) if isinstance(found, int | float) else None

    @property
    def up(self) -> str:
        """How long it has been there, "" where it does not tell."""
        return "" if self.started_at is None else short(max(0.0, self._now - self.started_at))

    @property
    def silent(self) -> str:
        """How long it has not been heard of, "" where nobody can tell."""
        return "" if math.isnan(self.age_s) else short(self.age_s)

    @property
    def can_drain(self) -> bool:
        """Whether a request to drain can reach it: an older version would not look for one."""
        return self.fresh and not self.draining and self.started_at is not None and "draining" in self.about

    @property
    def batch(self) -> Share:
        return self._share("running", "max_batch")

    @property
    def kv(self) -> Share:
        return self._share("kv_tokens_used", "kv_tokens_total")

    @property
    def memory(self) -> Share:
        return self._share("memory_used", "memory_total")

    @property
    def hit_percent(self) -> float:
        """How much of prompts was found in the prefix cache."""
        return 100 * float(self.about.get("prefix_hit_rate") or 0)

    def _share(self, used: str, total: str) -> Share:
        return Share(float(self.about.get(used) or 0), float(self.about.get(total) or 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """All of it at one moment; `celery_age_s` is None where Celery has done nothing for a day."""

    workers: list[Process]
    gateways: list[Process]
    celery_age_s: float | None
    redis: Mapping[str, Any]  # empty where it does not answer INFO

    @property
    def alive(self) -> list[Process]:
        return [process for process in (*self.workers, *self.gateways) if process.fresh]

    @property
    def celery(self) -> str:
        """How long ago Celery did something, "" where it did nothing for a day."""
        return "" if self.celery_age_s is None else short(self.celery_age_s)

    @property
    def celery_late(self) -> bool:
        return self.celery_age_s is None or self.celery_age_s > CELERY_LATE_S

    def of_kind(self, kind: str) -> list[Process]:
        return self.workers if kind == "worker" else self.gateways

    def find(self, process_id: str) -> Process | None:
        """Return a process that tells of itself, whatever its age."""
        return next((process for process in (*self.workers, *self.gateways) if process.id == process_id), None)

    def others_of(self, process: Process) -> list[Process]:
        """Return the processes that could do its work: alive and not draining."""
        others = (other for other in self.of_kind(process.kind) if other.fresh and not other.draining)
        same = (other for other in others if other.about.get("model") == process.about.get("model"))
        return [other for other in same if other.id != process.id]


def look(client: redis.Redis) -> Running:
    """Read all of it, in one round trip."""
    with client.pipeline(transaction=False) as pipe:
        pipe.time()
        pipe.hgetall(keys.WORKERS)
        pipe.hgetall(keys.GATEWAYS)
        pipe.pttl(keys.CELERY)
        pipe.info()
        time, workers, gateways, left_ms, info = pipe.execute(raise_on_error=False)
    for reply in (time, workers, gateways, left_ms):
        if isinstance(reply, redis.RedisError):
            raise reply
    now = time[0] + time[1] / 1e6
    return Running(
        workers=_processes("worker", workers, now),
        gateways=_processes("gateway", gateways, now),
        celery_age_s=keys.CELERY_S - left_ms / 1000 if left_ms > 0 else None,
        redis={} if isinstance(info, redis.RedisError) else cast(dict[str, Any], info),
    )


def _processes(kind: str, rows: Mapping[bytes, bytes], now: float) -> list[Process]:
    found = [Process(beat, kind, now) for beat in heartbeats.read(rows, now)]
    return sorted(found, key=lambda process: (not process.fresh, str(process.about.get("model", "")), process.id))
