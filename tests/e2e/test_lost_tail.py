"""Redis dies, and comes back without its last seconds: nobody is told anything twice, or nothing, or another thing."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.e2e.conftest import Event, Product, a_body, events_of, records_of, stream, text_of

pytestmark = pytest.mark.e2e


@pytest.fixture
def product() -> Iterator[Product]:
    made = Product(("--engine", "simulated"), {"SLUICE_SIM_TPOT_MS": "10"}).start()
    yield made
    assert made.stop() == 0, made.log[-4000:]


def append_only_file(product: Product) -> Path:
    """The file that Redis appends to now: one of several, from Redis 7 on."""
    return max((product.home / "redis").rglob("*.aof"), key=lambda path: path.stat().st_mtime_ns)


def lose_tail(product: Product, size: int) -> None:
    """Kill Redis and cut its file, before it is started again."""
    assert product.process is not None
    os.kill(product.process.pid, signal.SIGSTOP)
    try:
        (pid,) = product.processes("redis-server")
        os.kill(pid, signal.SIGKILL)
        while Path(f"/proc/{pid}/cmdline").read_bytes():  # empty once it is dead
            time.sleep(0.01)
        with append_only_file(product).open("r+b") as file:
            assert file.seek(0, os.SEEK_END) > size
            file.truncate(size)
    finally:
        os.kill(product.process.pid, signal.SIGCONT)


def logged(events: list[Event]) -> list[tuple[str | None, object]]:
    return [(event.id, event.data) for event in events if event.id]


def test_it_works(product: Product) -> None:
    key = product.manage("createkey", "tail", "--org", "tail")
    expected = text_of(stream(product, key, a_body(max_tokens=200)))
    got: list[Event] = []
    size, short = 0, ""
    with httpx.stream(
        "POST",
        product.url + "/v1/messages",
        json=a_body(max_tokens=200, stream=True),
        headers={"x-api-key": key},
        timeout=60,
    ) as response:
        for event in events_of(response):
            got.append(event)
            if event.id == "30":
                size = append_only_file(product).stat().st_size
                short = stream(product, key, a_body("Be brief.", max_tokens=3))[0].data["message"]["id"]
            if event.id == "80":
                lose_tail(product, size)
    assert text_of(got) == expected
    assert [event.id for event in got if event.type != "ping"] == [str(i + 1) for i in range(len(logged(got)))]
    assert got[-1].type == "message_stop"
    assert "redis lost its events after" in product.log
    assert "redis lost its log" in product.log
    message_id = got[0].data["message"]["id"]
    with httpx.stream("GET", f"{product.url}/v1/streams/{message_id}", headers={"x-api-key": key}) as replay:
        assert logged(list(events_of(replay))) == logged(got)
    rows = {row["id"]: row for row in records_of(product, key, 3)}
    assert len(rows) == 3
    assert (rows[message_id]["outcome"], rows[message_id]["output_tokens"]) == ("max_tokens", 200)
    assert rows[message_id]["attempts"] == 1, "its worker went on with it"
    assert rows[short]["output_tokens"] == 3, "all of it was lost, but for its account"
