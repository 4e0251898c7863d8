"""Workers and gateways die under load: what was counted is what the records say, and nothing stays reserved."""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import signal
import time
from collections.abc import Iterator
from typing import Any, cast

import httpx
import pytest
import redis
from django.conf import settings

from inference.protocol import keys
from tests.e2e.conftest import Product, a_body

pytestmark = pytest.mark.e2e

CLIENTS, EACH = 16, 6


@pytest.fixture
def product() -> Iterator[Product]:
    arguments = ("--engine", "simulated", "--workers", "2", "--gateways", "2")
    environment = {"SLUICE_SIM_TPOT_MS": "10", "SLUICE_LEASE_S": "2", "SLUICE_QUEUE_TIMEOUT_S": "10"}
    made = Product(arguments, environment | {"SLUICE_RESUME_WINDOW_S": "1"}).start()
    yield made
    assert made.stop() == 0, made.log[-4000:]


@pytest.fixture
def store(product: Product) -> Iterator[redis.Redis]:
    folder = product.home / "redis"
    url = folder / "url"
    with redis.Redis.from_url(url.read_text() if url.exists() else f"unix://{folder / 'redis.sock'}") as client:
        yield client


def post(product: Product, key: str, max_tokens: int) -> None:
    """Ask, and do not mind how it ends."""
    with contextlib.suppress(httpx.HTTPError):
        httpx.post(
            product.url + "/v1/messages", json=a_body(max_tokens=max_tokens), headers={"x-api-key": key}, timeout=60
        )


def busy_worker(product: Product, store: redis.Redis) -> int:
    """Wait until a worker that lives runs a message, and return its process."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        alive = product.processes("-m inference")
        for name in cast(list[bytes], store.zrange(keys.leases(settings.SLUICE.model), 0, -1)):
            worker = cast(bytes | None, store.hget(keys.meta(name.decode()), "worker"))
            if worker and (process := int(worker.rpartition(b"-")[2])) in alive:
                return process
        time.sleep(0.01)
    raise AssertionError("no worker has anything to do")


def name_of(store: redis.Redis, ending: str) -> str:
    (name,) = store.scan_iter(match=f"sluice:{{quota:*}}:{ending}")
    return str(name.decode())


def all_records(product: Product, key: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    url = f"{product.url}/v1/requests?limit=100"
    while url:
        page = httpx.get(url, headers={"x-api-key": key}).json()
        rows, url = rows + page["results"], page["next"]
    return rows


def test_it_works(product: Product, store: redis.Redis) -> None:
    limits = ("--max-streams", "12", "--budget-tokens", "1000000", "--otpm", "100000")
    key = product.manage("createkey", "quotas", "--org", "quotas", *limits)
    with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
        asked = [pool.submit(post, product, key, 20 + i % 60) for i in range(CLIENTS * EACH)]
        for victim in ("worker", "gateway", "worker"):
            time.sleep(0.7)
            gateway, *_ = product.processes("manage.py gateway")
            os.kill(busy_worker(product, store) if victim == "worker" else gateway, signal.SIGKILL)
        for future in asked:
            future.result()

    spent = name_of(store, "spent")
    organization = spent.partition("quota:")[2].partition("}")[0]
    deadline = time.monotonic() + 40  # the longest lease here is 16 s
    while store.exists(spent.replace("spent", "reservations")) and time.monotonic() < deadline:
        # A lapsed lease is dropped by whoever is admitted next.
        post(product, key, 1)
        time.sleep(1)
    assert not store.exists(spent.replace("spent", "reservations"), spent.replace("spent", "reserved"))
    time.sleep(2)  # the records follow
    rows = all_records(product, key)
    recorded = sum(row["input_tokens"] + row["output_tokens"] for row in rows)
    sums = cast(dict[bytes, bytes], store.hgetall(spent))
    counted = {name.decode(): int(value) for name, value in sums.items() if name.endswith(b"|total")}
    assert counted.pop(f"{organization}|total") == recorded
    assert list(counted.values()) == [recorded]
    assert any(row["attempts"] > 1 for row in rows), "no worker died in the middle of a message"
