"""Looking at workers, queues and gateways, again and again, so that there is a mean of each step of time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import redis
from django.db import transaction

from inference.protocol import heartbeats, keys, queueing, scripts
from records.merging import be_alone
from slo.models import Load
from slo.sums import Gauge, decode_gauges, encode
from slo.windows import STEPS_S

_LOCK = 0x51_0C_E2  # of PostgreSQL's advisory locks
_OF_WORKERS = ("tokens_per_s", "memory_used", "memory_total", "running")
KV_USED = "kv_used"  # a share, from 0 to 1
ACTIVE_STREAMS = "active_streams"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What was seen of one thing at one moment; the rest is as in `Load`."""

    kind: str
    name: str = ""
    model: str = ""
    device: str = ""
    values: Mapping[str, float] = field(default_factory=dict)


def sample(client: redis.Redis) -> None:
    """Look once, and add what is seen to the rows of now."""
    now, samples = look_around(client)
    store(now, samples)


def look_around(client: redis.Redis) -> tuple[float, list[Sample]]:
    """Return the time of Redis in seconds, and what there is; in two round trips."""
    with client.pipeline(transaction=False) as pipe:
        pipe.time()
        pipe.hgetall(keys.GATEWAYS)
        pipe.hgetall(keys.WORKERS)
        pipe.smembers(keys.MODELS)
        (seconds, micros), gateways, workers, names = pipe.execute()
    now = seconds + micros / 1e6
    models = sorted(name.decode() for name in cast(set[bytes], names))
    with client.pipeline(transaction=False) as pipe:
        for model in models:
            pipe.eval(scripts.QUEUED, 1, keys.ready(model))
        depths = pipe.execute()
    queues = [
        Sample(kind=Load.QUEUE, model=model, values=cast(Mapping[str, float], queueing.depths(found)))
        for model, found in zip(models, depths, strict=True)
    ]
    return now, [_of_gateways(gateways, now), *_of_workers(workers, now), *queues]


def store(now: float, samples: Iterable[Sample]) -> None:
    """Add samples to the rows of the steps that a moment lies in."""
    samples = list(samples)
    starts = {step_s: int(now) // step_s * step_s for step_s in STEPS_S}
    with transaction.atomic():
        be_alone(_LOCK)
        rows = {
            (row.step_s, row.kind, row.name, row.model): row
            for step_s, start in starts.items()
            for row in Load.objects.filter(step_s=step_s, start=start)
        }
        touched = [_added(rows, step_s, start, one) for step_s, start in starts.items() for one in samples]
        Load.objects.bulk_create([row for row in touched if row._state.adding])
        Load.objects.bulk_update([row for row in touched if not row._state.adding], ["gauges", "device"])


def _added(rows: Mapping[tuple[int, str, str, str], Load], step_s: int, start: int, one: Sample) -> Load:
    """Return the row of a step with a sample added."""
    row = rows.get((step_s, one.kind, one.name, one.model))
    if row is None:
        row = Load(step_s=step_s, start=start, kind=one.kind, name=one.name, model=one.model, gauges="{}")
    gauges = decode_gauges(row.gauges)
    for name, value in one.values.items():
        gauges.setdefault(name, Gauge()).see(value)
    row.gauges, row.device = encode(gauges), one.device
    return row


def _of_gateways(found: Mapping[bytes, bytes], now: float) -> Sample:
    streams = sum(about.get(ACTIVE_STREAMS, 0) for _, about in _fresh(found, now))
    return Sample(kind=Load.GATEWAYS, values={ACTIVE_STREAMS: streams})


def _of_workers(found: Mapping[bytes, bytes], now: float) -> Iterator[Sample]:
    for worker, about in _fresh(found, now):
        values = {name: float(about[name]) for name in _OF_WORKERS if name in about}
        if about.get("kv_tokens_total"):
            values[KV_USED] = about["kv_tokens_used"] / about["kv_tokens_total"]
        yield Sample(
            kind=Load.WORKER, name=worker, model=about.get("model", ""), device=about.get("device", ""), values=values
        )


def _fresh(found: Mapping[bytes, bytes], now: float) -> Iterator[tuple[str, dict[str, Any]]]:
    return ((beat.process, beat.about) for beat in heartbeats.read(found, now) if beat.fresh)
