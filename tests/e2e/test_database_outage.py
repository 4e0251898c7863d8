"""The database is away for a while: nobody who worked is refused, nothing is lost, and somebody hears of it."""

from __future__ import annotations

import contextlib
import re
import sqlite3
import time
from collections.abc import Iterator

import httpx
import pytest

from tests.databases import closed
from tests.e2e.conftest import Product, a_body, records_of, stream

pytestmark = pytest.mark.e2e

ALARM_S = 3


@pytest.fixture
def product() -> Iterator[Product]:
    settings = {"SLUICE_SIM_TPOT_MS": "2", "SLUICE_SPOOL_ALARM_S": str(ALARM_S)}
    made = Product(("--engine", "simulated", "--gateways", "2"), settings).start()
    yield made
    assert made.stop() == 0, made.log[-4000:]


@contextlib.contextmanager
def away(product: Product) -> Iterator[None]:
    """Take the database for ourselves alone: nobody else can read or write."""
    if product.database:
        with closed(product.database):
            yield
        return
    deadline = time.monotonic() + 20
    with contextlib.closing(sqlite3.connect(product.home / "sluice.sqlite3", isolation_level=None)) as database:
        database.execute("PRAGMA locking_mode = EXCLUSIVE")
        while True:  # until nobody has it open
            try:
                database.execute("BEGIN EXCLUSIVE")
                break
            except sqlite3.OperationalError:
                assert time.monotonic() < deadline
                time.sleep(0.01)
        yield


def spool_of(product: Product) -> dict[str, float]:
    text = httpx.get(product.url + "/metrics").text
    return {name: float(value) for name, value in re.findall(r"^sluice_spool_(\w+) (\S+)$", text, re.M)}


def until(product: Product, words: str) -> None:
    deadline = time.monotonic() + 30
    while words not in product.log:
        assert time.monotonic() < deadline, product.log[-4000:]
        time.sleep(0.1)


def test_it_works(product: Product) -> None:
    key = product.manage("createkey", "test")
    ids = []

    def serve_one() -> None:
        events = stream(product, key, a_body())
        assert events[-1].type == "message_stop"
        ids.append(events[0].data["message"]["id"])

    for _ in range(4):  # both gateways know the key
        serve_one()
    records_of(product, key, 4)
    with away(product):
        began = time.monotonic()
        while time.monotonic() - began < 2 * ALARM_S or "reports wait for the database" not in product.log:
            serve_one()
            assert time.monotonic() - began < 60, product.log[-4000:]
            assert httpx.get(product.url + "/readyz").status_code == 200
        spool = spool_of(product)
        assert spool["reports"] >= 2 * (len(ids) - 4)
        assert spool["oldest_seconds"] >= ALARM_S
    until(product, "the database has all reports again")
    serve_one()
    rows = records_of(product, key, len(ids))
    assert sorted(row["id"] for row in rows) == sorted(ids[-len(rows) :])
    assert product.manage("reports") == "0 wait for the database; 0 were set aside."
    query = "SELECT id, outcome, output_tokens, ttft_ms IS NOT NULL FROM records_requestrecord"
    assert sorted(product.rows(query)) == sorted((name, "max_tokens", 16, 1) for name in ids)
    assert "Traceback" not in product.log
