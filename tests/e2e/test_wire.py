"""Streams over the whole product, two gateways and two workers: whatever dies or stops, nothing is lost or doubled."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.e2e.conftest import Event, Product, a_body, events_of, records_of, stream

pytestmark = pytest.mark.e2e


def detached(product: Product, key: str, **more: Any) -> str:
    r = httpx.post(product.url + "/v1/streams", json=a_body(**more), headers={"x-api-key": key})
    assert r.status_code == 202, r.text
    return str(r.json()["id"])


def follow(product: Product, key: str, message_id: str, got: list[Event]) -> None:
    """Read a stream to its end, resuming as often as it takes."""
    while not got or got[-1].type != "message_stop":
        last = {"last-event-id": got[-1].id or ""} if got else {}
        with (
            contextlib.suppress(httpx.HTTPError, AssertionError),
            httpx.stream(
                "GET", f"{product.url}/v1/streams/{message_id}", headers={"x-api-key": key} | last, timeout=30
            ) as r,
        ):
            got += [event for event in events_of(r) if event.id]


def logged(events: list[Event]) -> list[tuple[str | None, dict[str, Any]]]:
    return [(event.id, event.data) for event in events if event.id]


def test_a_detached_stream_has_its_readers_in_its_record(simulated: Product) -> None:
    key = simulated.manage("createkey", "readers", "--org", "readers")
    message_id = detached(simulated, key, max_tokens=100)
    sizes = []
    for headers in ({}, {"last-event-id": "50"}):
        r = httpx.get(f"{simulated.url}/v1/streams/{message_id}", headers={"x-api-key": key} | headers, timeout=30)
        sizes.append(len(r.content))
    deadline = time.monotonic() + 10
    while (row := records_of(simulated, key, 1)[0])["bytes_sent"] != sum(sizes) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert (row["id"], row["resumes"], row["bytes_sent"]) == (message_id, 1, sum(sizes))
    assert 0 < row["ttft_ms"] < row["total_ms"]


def test_killed_gateways_lose_nothing(simulated: Product, simulated_key: str) -> None:
    ids = [detached(simulated, simulated_key, text=f"Number {i}", max_tokens=250) for i in range(6)]
    got: dict[str, list[Event]] = {message_id: [] for message_id in ids}
    threads = [threading.Thread(target=follow, args=(simulated, simulated_key, m, got[m])) for m in ids]
    for thread in threads:
        thread.start()
    time.sleep(0.8)
    for pid in simulated.processes("manage.py gateway"):
        os.kill(pid, signal.SIGKILL)
        time.sleep(0.5)
    for thread in threads:
        thread.join(60)
    for message_id in ids:
        again: list[Event] = []
        follow(simulated, simulated_key, message_id, again)
        assert logged(got[message_id]) == logged(again)
        assert again[-2].data["usage"]["output_tokens"] == 250


def test_a_hundred_streams_at_once(simulated: Product, simulated_key: str) -> None:
    with ThreadPoolExecutor(100) as pool:
        ends = list(pool.map(lambda _: stream(simulated, simulated_key, a_body(max_tokens=60))[-1].type, range(100)))
    assert ends == ["message_stop"] * 100


def test_redis_may_restart_in_the_middle(simulated: Product, simulated_key: str) -> None:
    results: list[list[Event]] = []
    thread = threading.Thread(target=lambda: results.append(stream(simulated, simulated_key, a_body(max_tokens=250))))
    thread.start()
    time.sleep(1)
    (pid,) = simulated.processes("redis-server")
    os.kill(pid, signal.SIGKILL)
    thread.join(60)
    assert results
    assert results[0][-1].type in ("message_stop", "error")
    deadline = time.monotonic() + 30
    while not simulated.ready() and time.monotonic() < deadline:
        time.sleep(0.2)
    assert stream(simulated, simulated_key, a_body())[-1].type == "message_stop"


def test_a_stop_drains() -> None:
    product = Product(("--engine", "simulated"), {"SLUICE_SIM_TPOT_MS": "20", "SLUICE_DRAIN_S": "8"}).start()
    key = product.manage("createkey", "drain")
    results: list[list[Event]] = []

    def run(max_tokens: int) -> None:
        results.append(stream(product, key, a_body(max_tokens=max_tokens)))

    threads = [threading.Thread(target=run, args=(n,)) for n in (120, 120, 3000, 3000)]
    for thread in threads:
        thread.start()
    time.sleep(1)
    assert product.process is not None
    product.process.send_signal(signal.SIGTERM)
    time.sleep(1)
    refused = httpx.post(product.url + "/v1/messages", json=a_body(), headers={"x-api-key": key})
    assert refused.status_code == 503
    assert httpx.get(product.url + "/healthz").status_code == 200
    for thread in threads:
        thread.join(30)
    reasons = sorted(events[-2].data["delta"]["stop_reason"] for events in results)
    assert reasons == ["max_tokens"] * 2 + ["server_shutdown"] * 2
    assert product.process.wait(30) == 0
