"""How fast one sees 30 days of what was measured: the pages of the console, and what they are made of.

    .venv/bin/python benchmarks/slo.py                              a million requests on SQLite, some minutes
    .venv/bin/python benchmarks/slo.py --days 1 --rows 2000         to see that it works
    DATABASE_URL=postgres://… .venv/bin/python benchmarks/slo.py

Fills the database that DATABASE_URL names, which has to be empty of records, or an SQLite one in a temporary folder:
3 models, 50 organisations (the largest has a fifth of all), the roll-ups as Celery would have made them, 4 workers, and
the records. Then it rolls up one more minute in which all of them are busy, and counts what a stream costs its gateway.
Pages are asked for in this process, without a network. Prints Markdown.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from filling import MODELS, Act, a_django, fill_records, get, make_tenants, migrate, operator, table

if TYPE_CHECKING:
    from slo.models import Rollup
    from slo.rolling import Groups
    from slo.sums import Sums

TOKENS = 100  # of an answer
BUSY = 20  # requests of each model and organisation in the minute that is rolled up
CHUNK = 2000
MINUTES_S = 7 * 3600  # for which there are minutes
PAGES = ("/admin/console/slo/", "/admin/console/latency/")
# Median and spread (of the logarithm) of what is measured, in seconds.
SHAPES = {"ttft": (0.06, 0.6), "tpot": (0.016, 0.2), "tbt": (0.016, 0.5)}
STAGES = {"auth": 100, "tokenizing": 500, "admission": 400, "enqueue": 300, "queue": 2000, "prefill": 30_000,
          "decode": 1_600_000, "safety": 3000}  # µs of each request  # fmt: skip

Chances = dict[str, tuple[Any, Any]]  # of a sketch: its buckets, and how likely each of them is

random_numbers = np.random.default_rng(1)


def chances() -> Chances:
    """Return, for each sketch, its buckets and how likely each of them is."""
    from inference.protocol.sketches import index_of

    found = {}
    for name, (middle, spread) in SHAPES.items():
        drawn = random_numbers.lognormal(np.log(middle), spread, 200_000)
        indexes, counts = np.unique([index_of(seconds) for seconds in drawn], return_counts=True)
        found[name] = indexes, counts / counts.sum()
    return found


def measured(likely: Chances, requests: int) -> Sums:
    """Return what so many requests may have come to."""
    from slo.sums import Sums

    sketches = {}
    for name, (indexes, chance) in likely.items():
        counts = random_numbers.multinomial(requests * (TOKENS - 1 if name == "tbt" else 1), chance)
        sketches[name] = {int(i): int(count) for i, count in zip(indexes, counts, strict=True) if count}
    bad = int(random_numbers.binomial(requests, 0.0005))
    answers = {"good": requests - bad} | ({"bad:overloaded_error": bad} if bad else {})
    return Sums(
        **sketches,
        answers=answers,
        outcomes={"end_turn": requests},
        tokens={"output": requests * TOKENS},
        stages=dict.fromkeys(STAGES, requests),
        stages_us={name: us * requests for name, us in STAGES.items()},
    )


def groups_of(likely: Chances, organizations: list[str], models: list[str], requests: float) -> Groups:
    """Return what a step has of each model and organisation, and of all."""
    from slo.sums import Sums

    shares = np.array([1 / (1 + number) for number, _ in enumerate(organizations)])
    found: Groups = {}
    for model, share in zip(models, (0.7, 0.25, 0.05), strict=True):
        numbers = random_numbers.poisson(requests * share * shares / shares.sum())
        for organization, number in zip(organizations, numbers, strict=True):
            if number:
                sums = measured(likely, int(number))
                for group in ((model, organization), (model, ""), ("", organization), ("", "")):
                    found.setdefault(group, Sums()).merge(sums)
    return found


def rollups(organizations: list[str], models: list[str], days: int, per_day: float) -> Iterator[Rollup]:
    """Yield the rows that there would be now, but of the finer steps no more than the pages read."""
    from slo.models import Rollup
    from slo.sums import encode
    from slo.windows import DAY_S, HOUR_S, MINUTE_S, QUARTER_S, THREE_HOURS_S

    now, likely = int(time.time()), chances()
    kept = {THREE_HOURS_S: days * DAY_S, HOUR_S: 7 * DAY_S, QUARTER_S: DAY_S, MINUTE_S: MINUTES_S}
    for step_s, kept_s in kept.items():
        for start in range(now // step_s * step_s - kept_s, now, step_s):
            groups = groups_of(likely, organizations, models, per_day * step_s / DAY_S)
            for (model, organization), sums in groups.items():
                yield Rollup(step_s=step_s, start=start, model=model, organization=organization, sums=encode(sums))
        print(f"steps of {step_s} s are made", file=sys.stderr, flush=True)


def fill(organizations: list[str], models: list[str], days: int, per_day: float) -> int:
    """Write the rows; return how many there are."""
    from slo.models import Load, Rollup
    from slo.sampling import Sample
    from slo.sampling import store as store_load
    from slo.windows import HOUR_S, MINUTE_S

    rows = rollups(organizations, models, days, per_day)
    while chunk := list(islice(rows, CHUNK)):
        Rollup.objects.bulk_create(chunk)
    values = {"tokens_per_s": 900.0, "memory_used": 6e10, "memory_total": 1.4e11, "kv_used": 0.4, "running": 12.0}
    workers = [
        Sample(kind=Load.WORKER, name=f"w-{i}", model=models[i % 3], device="H200", values=values) for i in range(4)
    ]
    queues = [
        Sample(kind=Load.QUEUE, model=model, values={"priority": 0, "standard": 2, "batch": 40}) for model in models
    ]
    seen = [*workers, *queues, Sample(kind=Load.GATEWAYS, values={"active_streams": 50})]
    now = time.time()
    for minute in range(MINUTES_S // MINUTE_S):
        store_load(now - minute * MINUTE_S, seen)
    for hour in range(MINUTES_S // HOUR_S, days * 24):
        store_load(now - hour * HOUR_S, seen)
    return int(Rollup.objects.count())


def looks(models: list[str], organizations: list[str]) -> Iterator[tuple[str, Act]]:
    """Yield what is looked at."""
    from slo.look import look
    from slo.windows import WINDOWS, Window

    def looking(window: Window, **filters: str) -> Act:
        return lambda: look(window, **filters)

    for window in WINDOWS.values():
        yield f"look: {window.label}", looking(window)
    month = WINDOWS["30d"]
    yield "look: 30 days of a model", looking(month, model=models[0])
    yield "look: 30 days of the largest organisation", looking(month, organization=organizations[0])
    yield "look: 30 days of both", looking(month, model=models[0], organization=organizations[0])

    browser = operator()

    def asking(path: str) -> Act:
        return lambda: get(browser, path)

    for page in PAGES:
        for query in ("window=1h", "window=24h", "window=30d", f"window=30d&organization={organizations[0]}"):
            whose = " of an organisation" if "&" in query else ""
            yield f"{page}?{query.partition('&')[0]}{whose}", asking(f"{page}?{query}")


def rolling(organizations: list[str], models: list[str], url: str) -> list[str]:
    """Measure what a busy minute takes, from a gateway's counts to its rows; return lines."""
    import redis

    from common.counts import tell_minutes
    from inference.protocol.minutes import ANSWERS, GOOD, TBT, TTFT, MinuteTally
    from slo.rolling import roll_up

    client, tally = redis.Redis.from_url(url), MinuteTally()
    gaps = [[random.lognormvariate(-4, 0.5) for _ in range(TOKENS - 1)] for _ in range(BUSY)]
    begun = time.process_time()
    for model in models:
        for organization in organizations:
            for some in gaps:
                counts = tally.of(model, organization)
                counts.observe(TTFT, (0.05,))
                counts.observe(TBT, some)
                counts.add(ANSWERS, GOOD)
                for stage in STAGES:
                    counts.stage(stage, 1.0)
    counting = (time.process_time() - begun) / (BUSY * len(models) * len(organizations))
    begun = time.perf_counter()
    tell_minutes(client, "benchmark", tally)
    telling = time.perf_counter() - begun
    begun, computed = time.perf_counter(), time.process_time()
    roll_up(client)
    rolled, computed = time.perf_counter() - begun, time.process_time() - computed
    groups = len(models) * len(organizations)
    return [
        f"- counting a stream of {TOKENS} tokens: {counting * 1e6:.0f} µs of its process, at its end",
        f"- adding {groups} models and organisations to Redis: {telling * 1000:.0f} ms",
        f"- rolling up a minute of them, its quarter and its hour: {rolled * 1000:.0f} ms, "
        f"{computed * 1000:.0f} of them computing here",
    ]


def run(days: int, rows: int, num_records: int, redis_url: str) -> list[str]:
    """Fill the database and measure; return Markdown."""
    from slo.models import Rollup

    migrate(empty=Rollup)
    keys, _ = make_tenants()
    organizations, models = list(dict.fromkeys(str(key.organization_id) for key in keys)), list(MODELS)
    num_rollups = fill(organizations, models, days, rows / days)
    fill_records(keys, num_records, days=days)
    what = f"{days} days, {rows:,} requests, {num_rollups:,} roll-ups, {num_records:,} records"
    lines = table("what", what, looks(models, organizations))
    return [*lines, "", *rolling(organizations, models, redis_url)]


@contextmanager
def a_redis() -> Iterator[str]:
    """Run a Redis; give its URL."""
    from django.conf import settings

    from config.embedded_redis import prepare, until_it_answers

    server = prepare(settings.SLUICE.home_path)
    process = subprocess.Popen(server.command, stdout=subprocess.DEVNULL, pass_fds=(server.lock,))
    try:
        asyncio.run(asyncio.wait_for(until_it_answers(server.url), 20))
        yield server.url
    finally:
        process.terminate()
        process.wait(10)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=int, default=30, help="how far back (30)")
    parser.add_argument("--rows", type=int, default=1_000_000, help="requests (1,000,000)")
    parser.add_argument("--records", type=int, default=0, help="their records, where not all of them (all)")
    options = parser.parse_args()
    with a_django(), a_redis() as url:
        print("\n".join(run(options.days, options.rows, options.records or options.rows, url)))


if __name__ == "__main__":
    main()
