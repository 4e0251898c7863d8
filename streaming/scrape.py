"""The whole platform in Prometheus' terms, from what its processes left in Redis."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from prometheus_client import Metric as Family
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from redis.asyncio import Redis

from inference.protocol import heartbeats, keys, queueing, scripts
from inference.protocol.heartbeats import Heartbeat
from inference.protocol.metrics import METRICS, SUM, Metric, read_field
from inference.protocol.outcomes import OUTCOMES, Priority
from records import spool
from records.spool import Spool
from streaming.known_series import Labels, known_series

PREFIX = "sluice_"
FORGOTTEN_S = 3600.0

# Of a gateway's heartbeat: the field, the metric, what it is.
OF_GATEWAYS = (
    ("active_streams", "gateway_active_streams", "Clients that a gateway is sending a message."),
    ("open_connections", "gateway_open_connections", "Connections of clients that a gateway has open."),
    ("draining", "gateway_draining", "Whether a gateway takes no more work and will end."),
)
# And of a worker's.
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
    ("draining", "worker_draining", "Whether a worker claims no more and will end."),
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
    queued: dict[str, dict[Priority, int]] = field(default_factory=dict)  # by model
    claimed: dict[str, int] = field(default_factory=dict)  # by model
    event_logs: int = 0
    logs_full: bool = False
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
        pipe.zcard(keys.LOGS)
        pipe.get(keys.LOGS_FULL)
        (seconds, micros), gateways, workers, counts, names, num_logs, logs_full = await pipe.execute()
    models = sorted(name.decode() for name in names)
    async with client.pipeline(transaction=False) as pipe:
        num_spool = spool.ask(pipe, models)
        for model in models:
            pipe.eval(scripts.QUEUED, 1, keys.ready(model))
            pipe.zcard(keys.leases(model))
            pipe.hgetall(keys.outcomes(model))
        found = await pipe.execute()
    of_spool, replies = found[:num_spool], found[num_spool:]
    outcomes: defaultdict[str, int] = defaultdict(int)
    for ended in replies[2::3]:
        for outcome, count in _numbers(ended).items():
            outcomes[outcome] += count
    now = seconds + micros / 1e6
    of_gateways = heartbeats.read(gateways, now)
    await _forget(client, [beat.process for beat in of_gateways if beat.age_s > FORGOTTEN_S])
    return Snapshot(
        gateways=_fresh(of_gateways),
        workers=_fresh(heartbeats.read(workers, now)),
        queued=dict(zip(models, map(queueing.depths, replies[::3]), strict=True)),
        claimed=dict(zip(models, replies[1::3], strict=True)),
        event_logs=num_logs,
        logs_full=bool(logs_full),
        outcomes=dict(outcomes),
        counts=_numbers(counts),
        spool=spool.read(of_spool, now),
    )


async def _forget(client: Redis, gateways: list[str]) -> None:
    if gateways:
        await client.hdel(keys.GATEWAYS, *gateways)


def _fresh(beats: Iterable[Heartbeat]) -> Heartbeats:
    return {beat.process: beat.about for beat in beats if beat.fresh}


def _numbers(found: Mapping[bytes, bytes]) -> dict[str, int]:
    return {name.decode(): int(value) for name, value in found.items()}


class Scrape:
    """A snapshot as Prometheus' library takes it."""

    def __init__(self, snapshot: Snapshot, *, queue_limit: int = 0) -> None:
        """`queue_limit` is that of the gateway that answers."""
        self._snapshot, self._queue_limit = snapshot, queue_limit

    def collect(self) -> Iterator[Family]:
        """Give all metrics."""
        now = self._snapshot
        yield _gauge("redis_up", "Whether the gateway that answered reaches Redis.", int(now.redis_up))
        if not now.redis_up:
            return  # what is not known is not told
        yield _gauge("gateways", "Gateways that run.", len(now.gateways))
        streams = sum(about["active_streams"] for about in now.gateways.values())
        yield _gauge("active_streams", "Clients that are being sent a message, over all gateways.", streams)
        yield from _of_queues(now)
        yield _gauge(
            "queue_limit", "Requests of one model that may wait, in this gateway's settings.", self._queue_limit
        )
        yield _gauge(
            "event_logs", "Event logs that are kept: of running messages, and of finished ones.", now.event_logs
        )
        yield _gauge("event_logs_full", "Whether running messages alone pass the logs' budget.", int(now.logs_full))
        ended = CounterMetricFamily(f"{PREFIX}requests_total", "Messages that have ended.", labels=["outcome"])
        for outcome in dict.fromkeys((*OUTCOMES, *now.outcomes)):
            ended.add_metric([outcome], now.outcomes.get(outcome, 0))
        yield ended
        yield _gauge("spool_reports", "Reports of messages that wait for the database.", now.spool.waiting)
        yield _gauge("spool_oldest_seconds", "How long the oldest of them has waited.", now.spool.oldest_s)
        yield _gauge("spool_set_aside", "Reports that were set aside: they make no record.", now.spool.set_aside)
        yield from _of_processes(now)
        yield from _of_gateways(now.gateways)
        yield from _of_workers(now.workers)
        yield from _of_counts(now.counts, known_series(now.queued))


def _gauge(name: str, about: str, value: float) -> Family:
    return GaugeMetricFamily(PREFIX + name, about, value=value)


def _of_queues(now: Snapshot) -> Iterator[Family]:
    queued = GaugeMetricFamily(f"{PREFIX}queued", "Requests that wait for a worker.", labels=["model", "priority"])
    for model, depths in now.queued.items():
        for priority, number in depths.items():
            queued.add_metric([model, priority], number)
    yield queued
    claimed = GaugeMetricFamily(f"{PREFIX}claimed", "Requests that workers have claimed.", labels=["model"])
    for model, number in now.claimed.items():
        claimed.add_metric([model], number)
    yield claimed


def _of_processes(now: Snapshot) -> Iterator[Family]:
    family = GaugeMetricFamily(f"{PREFIX}build_info", "What runs, always 1.", labels=["process", "kind", "version"])
    for kind, beats in (("gateway", now.gateways), ("worker", now.workers)):
        for process, about in beats.items():
            family.add_metric([process, kind, about.get("version", "")], 1)
    yield family


def _of_gateways(gateways: Heartbeats) -> Iterator[Family]:
    for source, name, about in OF_GATEWAYS:
        family = GaugeMetricFamily(PREFIX + name, about, labels=["gateway"])
        for gateway, facts in gateways.items():
            if source in facts:
                family.add_metric([gateway], facts[source])
        yield family


def _of_workers(workers: Heartbeats) -> Iterator[Family]:
    for rows, kind in ((GAUGES, GaugeMetricFamily), (COUNTERS, CounterMetricFamily)):
        for source, name, about in rows:
            family = kind(PREFIX + name, about, labels=["worker", "model", "device"])
            for worker, facts in sorted(workers.items()):
                if source in facts:  # a worker of an older version tells less
                    family.add_metric([worker, facts["model"], facts.get("device", "")], facts[source])
            yield family


def _of_counts(counts: Mapping[str, int], known: Mapping[str, Iterable[Labels]]) -> Iterator[Family]:
    found: defaultdict[str, dict[Labels, int]] = defaultdict(dict)
    for field_name, value in counts.items():
        name, *parts = read_field(field_name)
        found[name][tuple(parts)] = value
    for metric in METRICS:
        family = _histogram if metric.bounds else _counter
        num_parts = len(metric.labels) + bool(metric.bounds)  # another version may have other labels
        counted = {parts: value for parts, value in found[metric.name].items() if len(parts) == num_parts}
        yield family(metric, counted, known.get(metric.name, ()))


def _counter(metric: Metric, found: Mapping[Labels, int], known: Iterable[Labels]) -> Family:
    family = CounterMetricFamily(PREFIX + metric.name, metric.about, labels=metric.labels)
    found = {**dict.fromkeys(known, 0), **found}
    for labels, value in found.items() if metric.labels else [((), sum(found.values()))]:
        family.add_metric(labels, value)
    return family


def _histogram(metric: Metric, found: Mapping[Labels, int], known: Iterable[Labels]) -> Family:
    family = HistogramMetricFamily(PREFIX + metric.name, metric.about, labels=metric.labels)
    series: defaultdict[Labels, dict[str, int]] = defaultdict(dict)
    for labels in known if metric.labels else [()]:
        series[labels] = {}
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
