"""The probe of a worker's start."""

from __future__ import annotations

import json
import socket

import pytest
import redis

from inference import ready
from inference.protocol import keys


def hear_of_a_worker(store: redis.Redis, host: str, *, ago_s: float = 0.0) -> None:
    """Leave a heartbeat, `ago_s` seconds old."""
    seconds, micros = store.time()
    about = {"host": host, "seen_at": seconds + micros / 1e6 - ago_s}
    store.hset(keys.WORKERS, f"{host}-7", json.dumps(about))


def test_a_worker_of_this_host_counts(store: redis.Redis, redis_server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDIS_URL", redis_server)
    hear_of_a_worker(store, "another")
    assert ready.main() == "No worker of this host is ready."
    hear_of_a_worker(store, socket.gethostname())
    assert ready.main() is None


def test_one_that_is_silent_does_not(store: redis.Redis) -> None:
    hear_of_a_worker(store, "here", ago_s=60.0)
    assert not ready.serves(store, "here")


def test_a_redis_that_is_away_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDIS_URL", "redis://127.0.0.1:1/0")
    assert str(ready.main()).startswith("Redis does not answer")
