"""Clients that behave badly, many of them: nothing stays behind."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import redis

from tests.e2e.conftest import Product, a_body, stream

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

ABORTS = 5_000
AT_ONCE = 40
NON_READERS = 50


@pytest.fixture(scope="module")
def product() -> Iterator[Product]:
    made = Product(("--engine", "simulated"), {"SLUICE_SIM_TPOT_MS": "10", "SLUICE_EVENT_LOG_TTL_S": "2"}).start()
    yield made
    assert made.stop() == 0, made.log[-4000:]


@pytest.fixture(scope="module")
def key(product: Product) -> str:
    return product.manage("createkey", "soak")


def rss_mb(product: Product, word: str) -> float:
    """Memory of the one process with a word in its command line."""
    (pid,) = product.processes(word)
    (line,) = [text for text in Path(f"/proc/{pid}/status").read_text().splitlines() if text.startswith("VmRSS")]
    return int(line.split()[1]) / 1024


def post_of(key: str, body: dict[str, Any]) -> bytes:
    raw = json.dumps(body).encode()
    head = f"POST /v1/messages HTTP/1.1\r\nhost: x\r\nx-api-key: {key}\r\ncontent-length: {len(raw)}\r\n\r\n"
    return head.encode() + raw


async def abort(product: Product, request: bytes, count: int) -> None:
    """Post and leave after the first bytes, so often, one after the other."""
    for _ in range(count):
        reader, writer = await asyncio.open_connection("127.0.0.1", product.port)
        writer.write(request)
        head = await reader.readuntil(b"\r\n")
        assert b" 200 " in head, head
        await reader.read(200)
        writer.transport.abort()


def waited_for(check: Any, seconds: float = 30) -> bool:
    deadline = time.monotonic() + seconds
    while not check() and time.monotonic() < deadline:
        time.sleep(0.2)
    return bool(check())


def test_thousands_of_aborts_leave_nothing(product: Product, key: str) -> None:
    store = redis.Redis.from_url(f"unix://{product.home}/redis/redis.sock")
    request = post_of(key, a_body(max_tokens=4000, stream=True))

    async def run(count: int) -> None:
        await asyncio.gather(*(abort(product, request, count // AT_ONCE) for _ in range(AT_ONCE)))

    asyncio.run(run(ABORTS // 5))  # caches and pools are warm after these
    before = {word: rss_mb(product, word) for word in ("manage.py gateway", "-m inference")}
    asyncio.run(run(ABORTS * 4 // 5))

    def queue_keys() -> list[bytes]:
        lasting = (b":settlements", b":outcomes", b":wake")
        return [name for name in store.scan_iter("sluice:{q:*") if not name.endswith(lasting)]

    def open_channels() -> list[bytes]:
        return cast(list[bytes], store.pubsub_channels("sluice:{msg_*"))

    assert waited_for(lambda: not queue_keys()), queue_keys()
    assert waited_for(lambda: not open_channels()), open_channels()

    def load() -> int:
        (about,) = [json.loads(raw) for raw in cast(list[bytes], store.hvals("sluice:workers"))]
        return int(about["running"]) + int(about["waiting"])

    assert waited_for(lambda: load() == 0), load()
    assert waited_for(lambda: not list(store.scan_iter("sluice:{msg_*}:log"))), "logs expire"
    print({word: f"{mb:.0f} -> {rss_mb(product, word):.0f} MB" for word, mb in before.items()})
    for word, mb in before.items():
        assert rss_mb(product, word) - mb < 15, f"{word} grew"
    assert stream(product, key, a_body())[-1].type == "message_stop"
    store.close()


def test_readers_that_never_read_cost_little(product: Product, key: str) -> None:
    stream(product, key, a_body(max_tokens=200))
    before = rss_mb(product, "manage.py gateway")
    request = post_of(key, a_body(max_tokens=3000, stream=True))
    clients = []
    for _ in range(NON_READERS):
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", product.port))
        client.sendall(request)
        clients.append(client)
    began = time.monotonic()
    events = stream(product, key, a_body(max_tokens=400))
    took = time.monotonic() - began
    grown = rss_mb(product, "manage.py gateway") - before
    for client in clients:
        client.close()
    print(f"{grown:.1f} MB for {NON_READERS} readers that do not read; the other stream took {took:.1f} s")
    assert events[-1].type == "message_stop"
    assert took < 30, "the others go on"
    assert grown < 10, f"{grown:.1f} MB for {NON_READERS} readers that do not read"
