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
import random
import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from filling import Act, a_django, fill_records, get, make_tenants, migrate, now, operator, seconds, table

if TYPE_CHECKING:
    from accounts.models import ApiKey
    from inference.protocol.reports import Report

DAYS = 90
RARE = "oom"
LIST, USAGE = "/admin/records/requestrecord/", "/admin/records/dailyusage/"


def pages(keys: Sequence[ApiKey], plain: str) -> Iterator[tuple[str, Act]]:
    """Yield what is asked for, and how."""
    from django.test import Client

    from records.models import RequestRecord

    browser, caller = operator(), Client(SERVER_NAME="localhost", headers={"x-api-key": plain})
    large, small = keys[0], keys[-1]
    month = now() - timedelta(days=40)
    oldest = RequestRecord.objects.order_by("created_at").values_list("pk", flat=True)[0]

    def page(name: str, path: str, client: Client = browser) -> tuple[str, Act]:
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


def other_work(keys: Sequence[ApiKey]) -> Iterator[tuple[str, Act]]:
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


def per_s(count: int, act: Act) -> float:
    return count / seconds(act)


def run(rows: int) -> list[str]:
    """Fill the database and measure; return Markdown."""
    from records.models import RequestRecord

    migrate(empty=RequestRecord)
    keys, plain = make_tenants()
    filling_s = seconds(lambda: fill_records(keys, rows, days=DAYS))
    what = f"{rows:,} records (filled in {filling_s:.0f} s)"
    return [*table("page", what, (*pages(keys, plain), *other_work(keys))), "", *throughput(keys)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000, help="records (1,000,000)")
    options = parser.parse_args()
    with a_django():
        print("\n".join(run(options.rows)))


if __name__ == "__main__":
    main()
