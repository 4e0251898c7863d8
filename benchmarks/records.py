"""How fast the pages of records are, and the writing of them, with many of them in the database.

    .venv/bin/python benchmarks/records.py                      a million on SQLite, some minutes
    .venv/bin/python benchmarks/records.py --rows 20000         to see that it works
    DATABASE_URL=postgres://… .venv/bin/python benchmarks/records.py

Fills the database that DATABASE_URL names, which has to be empty of records, or an SQLite one in a temporary folder:
90 days, 50 organisations (the largest has a fifth of all), 500 keys, 3 models, all outcomes. Pages are asked for in
this process, without a network: what is measured is Django and the database. Prints Markdown.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
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
    from accounts.models import ApiKey
    from inference.protocol.reports import Report

DAYS = 90
ORGANIZATIONS, KEYS = 50, 10  # of each organisation
MODELS = {"m-small": 70, "m-medium": 25, "m-large": 5}  # and how often of 100
OUTCOMES = {
    "end_turn": 6000, "max_tokens": 2500, "stop_sequence": 500, "tool_use": 400, "client_gone": 300, "cancelled": 150,
    "safety": 60, "abandoned": 40, "timeout": 30, "error": 15, "worker_lost": 4, "oom": 1,
}  # fmt: skip
RARE = "oom"
CHUNK = 10_000
TIMES = 15  # that a page is asked for
LIST, USAGE = "/admin/records/requestrecord/", "/admin/records/dailyusage/"


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


def random_rows(keys: Sequence[ApiKey], count: int) -> Iterator[dict[str, Any]]:
    """Yield rows in the order of their time, the last of them a minute old."""
    chance = random.Random(1)
    shares = list(accumulate(1 / (1 + number // KEYS) for number in range(len(keys))))
    end = now() - timedelta(minutes=1)
    for number in range(count):
        (key,) = chance.choices(keys, cum_weights=shares)
        (model,) = chance.choices(list(MODELS), list(MODELS.values()))
        (outcome,) = chance.choices(list(OUTCOMES), list(OUTCOMES.values()))
        at = end - timedelta(days=DAYS) * (1 - (number + 1) / count)
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


def fill(keys: Sequence[ApiKey], count: int) -> None:
    """Write the rows, and what they come to."""
    from django.db import connection

    from records.models import RequestRecord

    fields, usual = RequestRecord._meta.concrete_fields, RequestRecord()
    defaults = {field.attname: getattr(usual, field.attname) for field in fields}
    varying = {"id", "organization_id", "key_id", "model", "created_at", "finished_at", "outcome",
               "input_tokens", "output_tokens"}  # fmt: skip
    rows = random_rows(keys, count)
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


def measure(act: Callable[[], Any], times: int = TIMES) -> Figures:
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


def pages(keys: Sequence[ApiKey], plain: str) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield what is asked for, and how."""
    from django.contrib.auth.models import User
    from django.test import Client

    from records.models import RequestRecord

    operator, caller = Client(SERVER_NAME="localhost"), Client(SERVER_NAME="localhost", headers={"x-api-key": plain})
    operator.force_login(User.objects.create_superuser("bench"))
    large, small = keys[0], keys[-1]
    month = now() - timedelta(days=40)
    oldest = RequestRecord.objects.order_by("created_at").values_list("pk", flat=True)[0]

    def get(client: Client, path: str) -> Any:
        response = client.get(path)
        if response.status_code != 200:
            raise RuntimeError(f"{path}: {response.status_code} {response.content[:300]!r}")
        return response

    def page(name: str, path: str, client: Client = operator) -> tuple[str, Callable[[], Any]]:
        return name, lambda: get(client, path)

    of_large, of_small = (f"organization__id__exact={key.organization_id}" for key in (large, small))
    yield page("admin: list", LIST)
    yield page("admin: the last page to turn to", f"{LIST}?p=100")
    yield page("admin: the oldest first", f"{LIST}?o=1")
    yield page("admin: outcome end_turn", f"{LIST}?outcome__exact=end_turn")
    yield page(f"admin: outcome {RARE}", f"{LIST}?outcome__exact={RARE}")
    yield page("admin: model, 5 %", f"{LIST}?model=m-large")
    yield page("admin: largest organisation", f"{LIST}?{of_large}")
    yield page("admin: smallest organisation", f"{LIST}?{of_small}")
    yield page("admin: a key", f"{LIST}?{of_large}&key__id__exact={large.id}")
    yield page(f"admin: organisation and {RARE}", f"{LIST}?{of_large}&outcome__exact={RARE}")
    yield page(f"admin: model and {RARE}", f"{LIST}?model=m-large&outcome__exact={RARE}")
    yield page("admin: a month", f"{LIST}?created_at__year={month.year}&created_at__month={month.month}")
    yield page(
        "admin: a day of the organisation",
        f"{LIST}?created_at__year={month.year}&created_at__month={month.month}&created_at__day={month.day}&{of_large}",
    )
    yield page("admin: search by id", f"{LIST}?q={oldest}")
    yield page("admin: one record", f"{LIST}{oldest}/change/")
    yield page("admin: daily usage", USAGE)
    yield page("admin: daily usage of an organisation", f"{USAGE}?{of_large}")

    yield page("/v1/requests", "/v1/requests", caller)
    path = "/v1/requests"
    for _ in range(99):
        path = get(caller, path).json()["next"] or path
    yield page("/v1/requests, page 100", path, caller)
    yield page("/v1/requests, model, 5 %", "/v1/requests?model=m-large", caller)
    yield page("/v1/requests, a key", f"/v1/requests?key={large.id}", caller)
    yield page(f"/v1/requests, outcome {RARE}", f"/v1/requests?outcome={RARE}", caller)
    yield page("/v1/requests, two outcomes", "/v1/requests?outcome=error,timeout", caller)
    days = f"from={month:%Y-%m-%d}&to={month:%Y-%m-%d}"
    yield page("/v1/requests, a day", f"/v1/requests?{days}", caller)
    yield page("/v1/requests, a day, model, outcome", f"/v1/requests?{days}&model=m-large&outcome={RARE}", caller)
    since = now() - timedelta(days=DAYS - 1)
    yield page("/v1/usage", "/v1/usage", caller)
    yield page("/v1/usage, 90 days", f"/v1/usage?from={since:%Y-%m-%d}", caller)


def now() -> datetime:
    return datetime.now(UTC)


def other_work(keys: Sequence[ApiKey]) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield what runs in the background."""
    from quotas.ledger import used_before, used_by_minute

    today = now()
    yield "used_before: all of the largest organisation", lambda: used_before(keys[0].organization_id, today)
    yield "used_by_minute: an hour of all", lambda: used_by_minute(today - timedelta(hours=1), today)


def throughput(keys: Sequence[ApiKey]) -> list[str]:
    """Measure merging, exporting and pruning; return lines."""
    from records.admin.export import CsvResponse
    from records.admin.records import RequestRecordAdmin
    from records.merging import merge
    from records.models import RequestRecord
    from records.pruning import prune

    batches = [reports(keys, 1000, number) for number in range(5)]
    merging = per_s(5000, lambda: [merge(batch) for batch in batches])
    again = per_s(5000, lambda: [merge(batch) for batch in batches])
    rows = RequestRecord.objects.select_related("organization", "key").filter(model="m-large")
    columns = RequestRecordAdmin.export_columns
    lines: list[int] = []
    export = CsvResponse("x.csv", rows, columns, moment="created_at")
    exporting_s = seconds(lambda: lines.extend(part.count(b"\n") for part in export))
    gone: list[int] = []
    pruning_s = seconds(lambda: gone.append(prune(now() - timedelta(days=DAYS - 1))))
    return [
        f"- merge: {merging:,.0f} rows/s new, {again:,.0f} rows/s again (each a settlement and a delivery)",
        f"- export of {sum(lines):,} rows: {sum(lines) / exporting_s:,.0f} rows/s",
        f"- prune of a day: {gone[0]:,} rows in {pruning_s:.1f} s, half of it rest",
    ]


def reports(keys: Sequence[ApiKey], count: int, batch: int) -> list[Report]:
    """Return the settlements and deliveries of new messages."""
    from inference.protocol.reports import Delivery, Settlement

    settled: dict[str, Any] = {
        "outcome": "end_turn", "output_tokens": 50, "attempts": 1, "worker": "w", "finished_at": time.time(),
        "queue_ms": 1.0, "prefill_ms": 20.0, "generation_ms": 900.0,
    }  # fmt: skip
    delivered: dict[str, Any] = {
        "reader": "req_1", "gateway": "g", "streamed": True, "ttft_ms": 30.0, "stream_ms": 900.0, "tbt_p99_ms": 25.0,
        "total_ms": 950.0, "bytes_sent": 9000, "stages": {"auth_ms": 0.1},
    }  # fmt: skip
    found: list[Report] = []
    for number in range(count):
        key = random.choice(keys)
        facts: dict[str, Any] = {
            "id": f"msg_z{batch:011}{number:012}", "organization": key.organization_id, "key": key.id,
            "model": "m-small", "created_at": time.time(), "input_tokens": 100,
        }  # fmt: skip
        found += [Settlement(**facts, **settled), Delivery(**facts, **delivered)]
    return found


def seconds(act: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    act()
    return time.perf_counter() - begun


def per_s(count: int, act: Callable[[], Any]) -> float:
    return count / seconds(act)


def run(rows: int) -> list[str]:
    """Fill the database and measure; return Markdown."""
    from django.core.management import call_command
    from django.db import connection

    from records.models import RequestRecord

    call_command("migrate", verbosity=0)
    if RequestRecord.objects.exists():
        raise SystemExit("DATABASE_URL: there are records in it already. Name an empty database.")
    keys, plain = make_tenants()
    filling_s = seconds(lambda: fill(keys, rows))
    lines = [
        f"{machine()}, {connection.vendor}, {rows:,} records (filled in {filling_s:.0f} s)\n",
        "| page | queries | p50, ms | max, ms | computing here, p50, ms |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, act in (*pages(keys, plain), *other_work(keys)):
        print(f"{name} …", file=sys.stderr, flush=True)
        lines.append(f"| {' | '.join([name, *measure(act).cells])} |")
    return [*lines, "", *throughput(keys)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000, help="records (1,000,000)")
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="sluice-bench-"))
        url = os.environ.get("DATABASE_URL", "")
        os.environ.update(environment_in(Path(folder)) | {"DJANGO_SETTINGS_MODULE": "config.settings"})
        os.environ["DATABASE_URL"] = url
        import django

        django.setup()
        print("\n".join(run(options.rows)))


if __name__ == "__main__":
    main()
