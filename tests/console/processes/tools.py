"""Heartbeats as processes of this version leave them."""

from __future__ import annotations

import json
from typing import Any

import redis

from inference.protocol import keys

STARTED_AT = 1764525600.25
WORKER: dict[str, Any] = {
    "host": "h", "pid": 7, "version": "0.1.0", "torch": "2.11.0", "started_at": STARTED_AT, "draining": False,
    "model": "m", "engine": "simulated", "context_length": 8192, "max_batch": 32, "running": 3, "waiting": 1,
    "kv_tokens_used": 1024, "kv_tokens_total": 4096, "device": "cuda:0", "memory_used": 2**30, "memory_total": 2**32,
    "tokens_per_s": 123.4, "prefix_hit_rate": 0.25,
}  # fmt: skip
GATEWAY: dict[str, Any] = {
    "host": "h", "pid": 8, "version": "0.1.0", "started_at": STARTED_AT, "draining": False, "active_streams": 5,
    "open_connections": 9,
}  # fmt: skip


def beat(store: redis.Redis, process: str, about: dict[str, Any], *, age_s: float = 0.0) -> None:
    """Let a process have told of itself some seconds ago."""
    seen_at = store.time()[0] - age_s
    name = keys.WORKERS if "model" in about else keys.GATEWAYS
    store.hset(name, process, json.dumps({"seen_at": seen_at} | about))
