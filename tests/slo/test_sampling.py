"""Looking at workers, queues and gateways."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
import redis
from django.db import connection
from django.test.utils import CaptureQueriesContext

from inference.protocol import keys
from inference.protocol.queueing import head_start_ms
from slo.models import Load
from slo.sampling import ACTIVE_STREAMS, KV_USED, Sample, look_around, sample, store
from slo.sums import decode_gauges
from slo.windows import STEPS_S

pytestmark = pytest.mark.django_db

NOW = 1_800_000_000.0


def beat(client: redis.Redis, where: str, process: str, *, age_s: float = 0.0, **about: Any) -> None:
    client.hset(where, process, json.dumps({"seen_at": time.time() - age_s, **about}))


def a_worker(client: redis.Redis, process: str = "w1", **changes: Any) -> None:
    about: dict[str, Any] = {
        "model": "m", "device": "H200", "tokens_per_s": 50.0, "memory_used": 10, "memory_total": 100, "running": 3,
        "kv_tokens_used": 25, "kv_tokens_total": 100,
    }  # fmt: skip
    beat(client, keys.WORKERS, process, **(about | changes))


def gauges_of(kind: str, step_s: int = 60) -> dict[str, tuple[float, int, float]]:
    (row,) = Load.objects.filter(kind=kind, step_s=step_s)
    return {name: (g.total, g.count, g.most) for name, g in decode_gauges(row.gauges).items()}


def test_it_works(store: redis.Redis) -> None:
    a_worker(store)
    beat(store, keys.GATEWAYS, "g1", active_streams=2)
    beat(store, keys.GATEWAYS, "g2", active_streams=3)
    store.sadd(keys.MODELS, "m")
    now_ms = int(time.time() * 1000)
    store.zadd(keys.ready("m"), {"a": now_ms - head_start_ms("batch"), "b": now_ms - head_start_ms("standard")})

    sample(store)
    for step_s in STEPS_S:
        assert gauges_of(Load.GATEWAYS, step_s) == {ACTIVE_STREAMS: (5, 1, 5)}
        assert gauges_of(Load.QUEUE, step_s) == {"standard": (1, 1, 1), "priority": (0, 1, 0), "batch": (1, 1, 1)}
        assert gauges_of(Load.WORKER, step_s)[KV_USED] == (0.25, 1, 0.25)
    row = Load.objects.filter(kind=Load.WORKER).first()
    assert row is not None
    assert (row.name, row.model, row.device) == ("w1", "m", "H200")


def test_samples_of_a_step_come_together() -> None:
    for value in (1.0, 5.0):
        with CaptureQueriesContext(connection) as queries:
            store(NOW, [Sample(kind=Load.GATEWAYS, values={ACTIVE_STREAMS: value})])
        assert len(queries) <= 9, "one of them is PostgreSQL's lock"
    store(NOW + 60, [Sample(kind=Load.GATEWAYS, values={ACTIVE_STREAMS: 3.0})])
    assert gauges_of(Load.GATEWAYS, 3600) == {ACTIVE_STREAMS: (9, 3, 5)}
    assert Load.objects.filter(step_s=60).count() == 2


def test_who_is_silent_is_not_there(store: redis.Redis) -> None:
    a_worker(store, "w1", age_s=60)
    store.hset(keys.WORKERS, "w2", "what?")
    beat(store, keys.GATEWAYS, "g", age_s=60, active_streams=2)
    _, samples = look_around(store)
    assert samples == [Sample(kind=Load.GATEWAYS, values={ACTIVE_STREAMS: 0})]


def test_a_worker_of_another_version_tells_less(store: redis.Redis) -> None:
    beat(store, keys.WORKERS, "w1", model="m", running=1)
    _, (_, worker) = look_around(store)
    assert worker == Sample(kind=Load.WORKER, name="w1", model="m", values={"running": 1})
