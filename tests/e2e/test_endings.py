"""Who ends a stream first: the rows of DESIGN's table that take processes and sockets. The others: tests/streaming."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import time
from collections.abc import Iterator
from typing import Any, cast

import httpx
import pytest
import redis

from tests.e2e.conftest import Event, Product, a_body, events_of, records_of, stream

pytestmark = pytest.mark.e2e

SETTINGS = {
    "SLUICE_SIM_TPOT_MS": "2",
    "SLUICE_LEASE_S": "1",
    "SLUICE_HEARTBEAT_S": "1",
    "SLUICE_STREAM_BUFFER_EVENTS": "10",
}


@pytest.fixture(scope="module")
def product() -> Iterator[Product]:
    made = Product(("--engine", "simulated", "--workers", "2"), SETTINGS).start()
    yield made
    assert made.stop() == 0, made.log[-4000:]


@pytest.fixture
def key(product: Product, request: pytest.FixtureRequest) -> str:
    """A key of an organisation of the test's own, so that its records are the only ones."""
    name = request.node.name.replace("_", "-")
    return product.manage("createkey", name, "--org", name)


def detached(product: Product, key: str, **more: Any) -> str:
    r = httpx.post(product.url + "/v1/streams", json=a_body(**more), headers={"x-api-key": key})
    assert r.status_code == 202, r.text
    return str(r.json()["id"])


def follow(product: Product, key: str, message_id: str, after: str = "0") -> list[Event]:
    headers = {"x-api-key": key, "last-event-id": after}
    with httpx.stream("GET", f"{product.url}/v1/streams/{message_id}", headers=headers, timeout=60) as response:
        return [event for event in events_of(response) if event.id]


def logged(events: list[Event]) -> list[tuple[str | None, dict[str, Any]]]:
    return [(event.id, event.data) for event in events if event.id]


def wait_until_idle(product: Product) -> None:
    """Wait until the heartbeats know of nothing that runs."""
    deadline = time.monotonic() + 10
    while busy_workers(product) and time.monotonic() < deadline:
        time.sleep(0.05)


def busy_workers(product: Product) -> list[int]:
    """The process ids of workers that run something."""
    with contextlib.closing(redis.Redis.from_url(f"unix://{product.home}/redis/redis.sock")) as store:
        beats = cast(dict[bytes, bytes], store.hgetall("sluice:workers"))
    return [int(name.rpartition(b"-")[2]) for name, about in beats.items() if json.loads(about)["running"]]


def test_a_worker_that_hangs_is_followed_by_another(product: Product, key: str) -> None:
    body = a_body(max_tokens=1500)
    expected = logged(stream(product, key, body))
    wait_until_idle(product)
    got: list[Event] = []
    with httpx.stream(
        "POST", product.url + "/v1/messages", json=body | {"stream": True}, headers={"x-api-key": key}, timeout=60
    ) as response:
        hung: list[int] = []
        for event in events_of(response):
            got.append(event)
            if not hung and event.type == "content_block_delta" and (hung := busy_workers(product)):
                os.kill(hung[0], signal.SIGSTOP)
        os.kill(hung[0], signal.SIGCONT)  # it finds itself fenced off
    assert logged(got)[1:] == expected[1:], "nothing lost, doubled or altered"
    assert sorted(row["attempts"] for row in records_of(product, key, 2)) == [1, 2]


def test_a_client_that_does_not_read_is_dropped_and_can_resume(product: Product, key: str) -> None:
    message_id = detached(product, key, max_tokens=4000)
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", product.port))
        client.sendall(f"GET /v1/streams/{message_id} HTTP/1.1\r\nhost: x\r\nx-api-key: {key}\r\n\r\n".encode())
        began = time.monotonic()
        events = follow(product, key, message_id)  # meanwhile another one reads
        assert [event.id for event in events] == [str(i + 1) for i in range(len(events))]
        while not _is_reset(client) and time.monotonic() - began < 30:
            time.sleep(0.1)
        got = b""
        with contextlib.suppress(ConnectionResetError):
            while piece := client.recv(65536):
                got += piece
    assert b"message_stop" not in got, "it was dropped, not served to its end"
    rest = follow(product, key, message_id, after="30")
    assert logged(rest) == logged(events)[30:]
    (row,) = records_of(product, key, 1)
    assert (row["outcome"], row["output_tokens"]) == ("max_tokens", 4000)


def test_a_redis_that_stays_away_is_an_error(product: Product, key: str) -> None:
    unread = detached(product, key, text="Nobody reads this.", max_tokens=3000)
    got: list[Event] = []
    assert product.process is not None
    with httpx.stream(
        "POST",
        product.url + "/v1/messages",
        json=a_body(max_tokens=3000, stream=True),
        headers={"x-api-key": key},
        timeout=60,
    ) as response:
        gone_at = 0.0
        try:
            for event in events_of(response):
                got.append(event)
                if event.id == "20":
                    os.kill(product.process.pid, signal.SIGSTOP)  # it would start Redis again at once
                    (pid,) = product.processes("redis-server")
                    os.kill(pid, signal.SIGKILL)
                    gone_at = time.monotonic()
        finally:
            os.kill(product.process.pid, signal.SIGCONT)
    assert [event.type for event in got[-2:]] == ["content_block_stop", "error"]
    assert got[-1].data["error"]["type"] == "api_error"
    assert 10 < got[-1].at - gone_at < 14
    rows = {row["id"]: row for row in records_of(product, key, 2)}
    assert rows[got[0].data["message"]["id"]]["outcome"] == "error"
    assert rows[unread]["outcome"] == "max_tokens", "nobody was told an error"


def _is_reset(client: socket.socket) -> bool:
    """Say whether the other side has cut the connection, without reading from it."""
    state = client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]
    return state != 1  # TCP_ESTABLISHED
