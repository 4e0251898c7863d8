"""Whatever part is killed comes back, and the next request works."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import httpx
import pytest

from tests.e2e.conftest import Product, a_body, events_of, records_of, stream

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def product() -> Iterator[Product]:
    made = Product(("--engine", "simulated"), {"SLUICE_SIM_TPOT_MS": "5"}).start()
    yield made
    assert made.stop() == 0, made.log[-4000:]


@pytest.fixture(scope="module")
def key(product: Product) -> str:
    return product.manage("createkey", "test")


def works_again(product: Product, key: str) -> bool:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            return stream(product, key, a_body())[-1].type == "message_stop"
        except (AssertionError, httpx.HTTPError):
            time.sleep(0.2)
    return False


@pytest.mark.parametrize("part", ["manage.py gateway", "-m inference", "redis-server"])
def test_a_killed_part_is_restarted(product: Product, key: str, part: str) -> None:
    (pid,) = product.processes(part)
    os.kill(pid, signal.SIGKILL)
    assert works_again(product, key), product.log[-4000:]
    deadline = time.monotonic() + 15
    while not (restarted := product.processes(part)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert restarted != [pid]


def test_a_worker_that_dies_loses_no_stream(simulated: Product) -> None:
    key = simulated.manage("createkey", "failover", "--org", "failover")
    body = a_body(max_tokens=200)
    expected = [(e.id, e.data) for e in stream(simulated, key, body)[1:]]
    with httpx.stream(
        "POST", simulated.url + "/v1/messages", json=body | {"stream": True}, headers={"x-api-key": key}, timeout=60
    ) as response:
        got = []
        for event in events_of(response):
            got.append(event)
            if len(got) == 20:
                for pid in simulated.processes("-m inference"):
                    os.kill(pid, signal.SIGKILL)
    logged = [(e.id, e.data) for e in got[1:] if e.type != "ping"]
    assert logged == expected, "nothing lost, doubled or altered"
    assert max(row["attempts"] for row in records_of(simulated, key, 2)) == 2


def test_a_client_that_leaves_frees_the_worker(simulated: Product) -> None:
    key = simulated.manage("createkey", "leaver", "--org", "leaver")
    for _ in range(5):
        with httpx.stream(
            "POST",
            simulated.url + "/v1/messages",
            json=a_body(max_tokens=4000, stream=True),
            headers={"x-api-key": key},
        ) as response:
            next(response.iter_lines())
    rows = records_of(simulated, key, 5)
    assert {row["outcome"] for row in rows} == {"client_gone"}
    assert max(row["output_tokens"] for row in rows) < 400


def test_serve_leaves_nothing_behind() -> None:
    product = Product(("--engine", "simulated")).start()
    below = product.processes()
    assert len(below) >= 5
    assert product.stop() == 0
    assert not [pid for pid in below if os.path.exists(f"/proc/{pid}")]
