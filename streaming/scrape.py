"""The whole platform in Prometheus' terms, from what its processes left in Redis."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, cast

from prometheus_client import Metric as Family
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from redis.asyncio import Redis

from inference.protocol import keys
from inference.protocol.metrics import METRICS, SUM, Metric
from inference.protocol.outcomes import OUTCOMES
from records import spool
from records.spool import Spool

PREFIX = "sluice_"
FRESH_S = 5.0  # a process that was silent for longer is not counted as there
FORGOTTEN_S = 3600.0

# Of a worker's heartbeat: the field, the metric, what it is.
GAUGES = (
    ("running", "worker_running", "Sequences that the engine computes."),
    ("waiting", "worker_waiting", "Sequences that the engine has taken and not begun."),
    ("max_batch", "worker_max_batch", "Sequences that it can compute at once."),
    ("kv_tokens_used", "worker_kv_tokens_used", "Tokens in the KV cache that belong to running sequences."),
    ("kv_tokens_total", "worker_kv_tokens", "Tokens that the KV cache holds."),
    ("memory_used", "worker_memory_used_bytes", "Memory taken: of a GPU by all, of a CPU's by the worker."),
    ("memory_total", "worker_memory_bytes", "Memory of the device."),
    ("tokens_per_s", "worker_tokens_per_second", "Tokens generated per second over the last 10 s."),
    ("prefix_hit_rate", "worker_prefix_hit_ratio", "Of prompts' tokens, those found in the cache, over the last 60 s."),
)
COUNTERS = (
    ("generated_tokens", "worker_generated_tokens_total", "Tokens generated."),
    ("prompt_tokens", "worker_prompt_tokens_total", "Tokens of the prompts that were begun."),
    ("cached_tokens", "worker_cached_tokens_total", "Of these, the ones found in the prefix cache."),
)

Heartbeats = dict[str, dict[str, Any]]


@dataclass(slots=True, kw_only=True)
class Snapshot:
    """What there is at one moment; nothing where Redis is away."""

    redis_up: bool = True
    gateways: Heartbeats = field(default_factory=dict)
    workers: Heartbeats = field(default_factory=dict)
    queued: dict[str, int] = field(default_factory=dict)  # by model
    outcomes: dict[str, int] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)  # by `metrics.field_of`
    spool: Spool = field(default_factory=Spool)


async def look(client: Redis) -> Snapshot:
    """Read a snapshot, in two round trips."""
    async with client.pipeline(transaction=False) as pipe:
        pipe.time()
        for name in (keys.GATEWAYS, keys.WORKERS, keys.COUNTS):
            pipe.hgetall(name)
        pipe.smembers(keys.MODELS)
        (seconds, micros), gateways, workers, counts, names = await pipe.execute()
    models = sorted(name.decode() for name in names)
    async with client.pipeline(transaction=False) as pipe:
        num_spool = spool.ask(pipe, models)
        for model in models:
            pipe.zcard(keys.ready(model))
            pipe.hgetall(keys.outcomes(model))
        found = await pipe.execute()
    of_spool, replies = found[:num_spool], found[num_spool:]
    outcomes: defaultdict[str, int] = defaultdict(int)
    for ended in replies[1::2]:
        for outcome, count in _numbers(ended).items():
            outcomes[outcome] += count
    await _forget(client, [name for name, raw in gateways.items() if _age(raw, seconds) > FORGOTTEN_S])
    return Snapshot(
        gateways=_fresh(gateways, seconds),
        workers=_fresh(workers, seconds),
        queued=dict(zip(models, replies[::2], strict=True)),
        outcomes=dict(outcomes),
        counts=_numbers(counts),
        spool=spool.read(of_spool, seconds + micros / 1e6),
    )


async def _forget(client: Redis, gateways: list[bytes]) -> None:
    if gateways:
        await client.hdel(keys.GATEWAYS, *cast(list[str], gateways))


def _fresh(heartbeats: Mapping[bytes, bytes], now: float) -> Heartbeats:
    return {name.decode(): json.loads(raw) for name, raw in heartbeats.items() if _age(raw, now) < FRESH_S}


def _age(heartbeat: bytes, now: float) -> float:
    """Return how old a heartbeat is. One that cannot be read is neither fresh nor forgotten."""
    try:
        return now - float(json.loads(heartbeat)["seen_at"])
    except (ValueError, KeyError, TypeError):
        return math.nan


def _numbers(found: Mapping[bytes, bytes]) -> dict[str, int]:
    return {name.decode(): int(value) for name, value in found.items()}


class Scrape:
    """A snapshot as Prometheus' library takes it."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def collect(self) -> Iterator[Family]:
        """Give all metrics."""
        now = self._snapshot
        yield _gauge("redis_up", "Whether the gateway that answered reaches Redis.", int(now.redis_up))
        if not now.redis_up:
            return  # what is not known is not told
        yield _gauge("gateways", "Gateways that run.", len(now.gateways))
        streams = sum(about["active_streams"] for about in now.gateways.values())
        yield _gauge("active_streams", "Clients that are being sent a message, over all gateways.", streams)
        queued = GaugeMetricFamily(f"{PREFIX}queued", "Requests that wait for a worker.", labels=["model"])
        for model, number in now.queued.items():
            queued.add_metric([model], number)
        yield queued
        ended = CounterMetricFamily(f"{PREFIX}requests_total", "Messages that have ended.", labels=["outcome"])
        for outcome in dict.fromkeys((*OUTCOMES, *now.outcomes)):
            ended.add_metric([outcome], now.outcomes.get(outcome, 0))
        yield ended
        yield _gauge("spool_reports", "Reports of messages that wait for the database.", now.spool.waiting)
        yield _gauge("spool_oldest_seconds", "How long the oldest of them has waited.", now.spool.oldest_s)
        yield _gauge("spool_set_aside", "Reports that were set aside: they make no record.", now.spool.set_aside)
        yield from _of_workers(now.workers)
        yield from _of_counts(now.counts)


def _gauge(name: str, about: str, value: float) -> Family:
    return GaugeMetricFamily(PREFIX + name, about, value=value)


def _of_workers(workers: Heartbeats) -> Iterator[Family]:
    for rows, kind in ((GAUGES, GaugeMetricFamily), (COUNTERS, CounterMetricFamily)):
        for source, name, about in rows:
            family = kind(PREFIX + name, about, labels=["worker", "model", "device"])
            for worker, facts in sorted(workers.items()):
                if source in facts:  # a worker of an older version tells less
                    family.add_metric([worker, facts["model"], facts.get("device", "")], facts[source])
            yield family


def _of_counts(counts: Mapping[str, int]) -> Iterator[Family]:
    found: defaultdict[str, dict[tuple[str, ...], int]] = defaultdict(dict)
    for field_name, value in counts.items():
        name, *parts = field_name.split("|")
        found[name][tuple(parts)] = value
    for metric in METRICS:
        family = _histogram if metric.bounds else _counter
        yield family(metric, found[metric.name])


def _counter(metric: Metric, found: Mapping[tuple[str, ...], int]) -> Family:
    family = CounterMetricFamily(PREFIX + metric.name, metric.about, labels=metric.labels)
    for labels, value in found.items() if metric.labels else [((), sum(found.values()))]:
        family.add_metric(labels, value)
    return family


def _histogram(metric: Metric, found: Mapping[tuple[str, ...], int]) -> Family:
    family = HistogramMetricFamily(PREFIX + metric.name, metric.about, labels=metric.labels)
    series: defaultdict[tuple[str, ...], dict[str, int]] = defaultdict(dict)
    if not metric.labels:
        series[()] = {}
    for parts, value in found.items():
        series[parts[:-1]][parts[-1]] = value
    for labels, buckets in sorted(series.items()):
        micros = buckets.pop(SUM, 0)
        family.add_metric(labels, list(_cumulative(metric.bounds, buckets)), micros / 1e6)
    return family


def _cumulative(bounds: Iterable[float], found: Mapping[str, int]) -> Iterator[tuple[str, float]]:
    """Give each bound, and how many values are not above it."""
    # Bounds that only other versions have are kept: what was counted under them was.
    ordered = sorted({f"{bound:g}" for bound in bounds} | found.keys() | {"inf"}, key=float)
    for bound, total in zip(ordered, accumulate(found.get(bound, 0) for bound in ordered), strict=True):
        yield ("+Inf" if bound == "inf" else bound), total
