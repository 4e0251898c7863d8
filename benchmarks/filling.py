"""A database full of records, for benchmarks of what reads them: in this process, without a network."""

from __future__ import annotations

import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib import import_module
from itertools import accumulate, islice
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from gateway import machine
from processes import HERE, environment_in

sys.path.remove(str(HERE))  # files here have the names of some of our packages

if TYPE_CHECKING:
    from django.db.models import Model
    from django.test import Client

    from accounts.models import ApiKey

Act = Callable[[], Any]

ORGANIZATIONS, KEYS = 50, 10  # of each organisation
MODELS = {"m-small": 70, "m-medium": 25, "m-large": 5}  # and how often of 100
OUTCOMES = {
    "end_turn": 6000, "max_tokens": 2500, "stop_sequence": 500, "tool_use": 400, "client_gone": 300, "cancelled": 150,
    "safety": 60, "abandoned": 40, "timeout": 30, "error": 15, "worker_lost": 4, "oom": 1,
}  # fmt: skip
CHUNK = 10_000
TIMES = 15  # that a page is asked for


@contextmanager
def a_django() -> Iterator[None]:
    """Set Django up, on the database that DATABASE_URL names or an SQLite one in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
        url = os.environ.get("DATABASE_URL", "")
        os.environ.update(environment_in(Path(folder)) | {"DJANGO_SETTINGS_MODULE": "config.settings"})
        os.environ["DATABASE_URL"] = url
        from django import setup

        setup()
        yield


def migrate(*, empty: type[Model]) -> None:
    """Make the tables; end where one is not empty that has to be."""
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    if empty._default_manager.exists():
        name = empty._meta.verbose_name_plural
        raise SystemExit(f"DATABASE_URL: there are {name} in it already. Name an empty database.")


def make_tenants() -> tuple[list[ApiKey], str]:
    """Make all organisations and keys; return these, and one of the first organisation in plain."""
    from accounts.keys import create_key
    from accounts.models import ApiKey, Organization

    owners = [Organization(name=f"organisation {number:02}") for number in range(ORGANIZATIONS)]
    Organization.objects.bulk_create(owners)
    keys = [
        ApiKey(organization=owner, name=f"key {number}", prefix=f"sk-bench-{i:02}{number:02}", digest="x")
        for i, owner in enumerate(owners)
        for number in range(KEYS)
    ]  # fmt: skip
    ApiKey.objects.bulk_create(keys)
    _, plain = create_key(name="asks", organization=owners[0].name)
    return keys, plain


def fill_records(keys: Sequence[ApiKey], count: int, *, days: int) -> None:
    """Write records of so many days, and what they come to."""
    from django.db import connection

    from records.models import RequestRecord

    fields, usual = RequestRecord._meta.concrete_fields, RequestRecord()
    defaults = {field.attname: getattr(usual, field.attname) for field in fields}
    varying = {"id", "organization_id", "key_id", "model", "created_at", "finished_at", "outcome",
               "input_tokens", "output_tokens"}  # fmt: skip
    rows = random_rows(keys, count, days)
    begun, done = time.perf_counter(), 0
    fixed: dict[str, Any] = {}
    while chunk := list(islice(rows, CHUNK)):
        if not fixed:
            sample = defaults | chunk[0]
            fixed = {f.attname: f.get_db_prep_save(sample[f.attname], connection) for f in fields}
        adapt = connection.ops.adapt_datetimefield_value
        values = [
            [(adapt(row[n]) if n.endswith("_at") else row[n]) if n in varying else fixed[n] for n in fixed]
            for row in chunk
        ]
        write(RequestRecord._meta.db_table, list(fixed), values)
        done += len(chunk)
        print(f"\r{done:,} rows, {time.perf_counter() - begun:.0f} s", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    with connection.schema_editor() as editor:
        import_module("records.migrations.0004_daily_usage").fill(None, editor)
    if connection.vendor == "postgresql":  # as it does by itself sooner or later
        with connection.cursor() as cursor:
            cursor.execute("VACUUM ANALYZE")


def random_rows(keys: Sequence[ApiKey], count: int, days: int) -> Iterator[dict[str, Any]]:
    """Yield rows in the order of their time, the last of them a minute old."""
    chance = random.Random(1)
    shares = list(accumulate(1 / (1 + number // KEYS) for number in range(len(keys))))
    end = now() - timedelta(minutes=1)
    for number in range(count):
        (key,) = chance.choices(keys, cum_weights=shares)
        (model,) = chance.choices(list(MODELS), list(MODELS.values()))
        (outcome,) = chance.choices(list(OUTCOMES), list(OUTCOMES.values()))
        at = end - timedelta(days=days) * (1 - (number + 1) / count)
        yield {
            "id": f"msg_{number:015}{chance.randrange(10**9):09}", "organization_id": key.organization_id,
            "key_id": key.id, "model": model, "created_at": at, "finished_at": at + timedelta(seconds=2),
            "outcome": outcome, "input_tokens": chance.randrange(20, 4000), "cached_tokens": 16, "attempts": 1,
            "output_tokens": chance.randrange(1, 1000), "worker": "worker-1", "gateway": "gateway-1",
            "queue_ms": 1.5, "prefill_ms": 30.0, "generation_ms": 2000.0, "streamed": True, "ttft_ms": 45.0,
            "stream_ms": 1900.0, "tbt_p99_ms": 25.0, "total_ms": 1960.0, "bytes_sent": 30_000,
            "stages": {"auth_ms": 0.1, "validation_ms": 0.2, "tokenizing_ms": 0.5, "admission_ms": 0.4},
            "readers": {"req_1": [0.0, 30_000, 0]},
        }  # fmt: skip


def write(table: str, columns: list[str], rows: list[list[Any]]) -> None:
    from django.db import connection, transaction

    names = ", ".join(columns)
    with transaction.atomic(), connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            with cursor.copy(f"COPY {table} ({names}) FROM STDIN") as copy:
                for row in rows:
                    copy.write_row(row)
        else:
            cursor.executemany(f"INSERT INTO {table} ({names}) VALUES ({', '.join(['%s'] * len(columns))})", rows)


def get(client: Client, path: str) -> Any:
    """Ask for a page; return the response."""
    response = client.get(path)
    if response.status_code != 200:
        raise RuntimeError(f"{path}: {response.status_code} {response.content[:300]!r}")
    return response


def operator() -> Client:
    """Return a browser that may see all."""
    from django.contrib.auth.models import User
    from django.test import Client

    client = Client(SERVER_NAME="localhost")
    client.force_login(User.objects.create_superuser("bench"))
    return client


def table(first: str, what: str, acts: Iterable[tuple[str, Act]]) -> list[str]:
    """Measure all that is named; return Markdown. `what` was filled in, `first` is the head of the names."""
    from django.db import connection

    lines = [
        f"{machine()}, {connection.vendor}, {what}\n",
        f"| {first} | queries | p50, ms | max, ms | computing here, p50, ms |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, act in acts:
        print(f"{name} …", file=sys.stderr, flush=True)
        lines.append(f"| {' | '.join([name, *measure(act).cells])} |")
    return lines


@dataclass(frozen=True, kw_only=True)
class Figures:
    """How many queries something took, its times in ms, and what of them this process computed."""

    queries: int
    times: list[float]
    computed: list[float]

    @property
    def cells(self) -> list[str]:
        figures = (median(self.times), max(self.times), median(self.computed))
        return [str(self.queries), *(f"{figure:,.1f}" for figure in figures)]


def measure(act: Act, times: int = TIMES) -> Figures:
    """Do something again and again."""
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    with CaptureQueriesContext(connection) as queries:
        act()
    figures = Figures(queries=len(queries), times=[], computed=[])
    for _ in range(times):
        begun, computed = time.perf_counter(), time.process_time()
        act()
        figures.times.append((time.perf_counter() - begun) * 1000)
        figures.computed.append((time.process_time() - computed) * 1000)
    return figures


def seconds(act: Act) -> float:
    begun = time.perf_counter()
    act()
    return time.perf_counter() - begun


def now() -> datetime:
    return datetime.now(UTC)
