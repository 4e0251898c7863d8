"""Batches by the official client, whatever dies meanwhile."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anthropic
import pytest
from anthropic.types.messages import MessageBatch

from tests.e2e.conftest import Product, a_body
from tests.e2e.test_quotas import all_records

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


@pytest.fixture
def product() -> Iterator[Product]:
    arguments = ("--engine", "simulated", "--workers", "2", "--gateways", "2")
    environment = {"SLUICE_SIM_TPOT_MS": "20", "SLUICE_LEASE_S": "2", "SLUICE_BATCH_CONCURRENCY": "20"}
    made = Product(arguments, environment).start()
    yield made
    assert made.stop() == 0, made.log[-4000:]


@contextmanager
def client_of(product: Product, name: str) -> Iterator[anthropic.Anthropic]:
    """An official client with a key in an organisation of its own."""
    key = product.manage("createkey", name, "--org", name, "--policy", "off")
    with anthropic.Anthropic(api_key=key, base_url=product.url, max_retries=5, timeout=30) as client:
        yield client


def create(client: anthropic.Anthropic, count: int, **more: Any) -> MessageBatch:
    requests = [{"custom_id": f"r{number}", "params": a_body(**more)} for number in range(count)]
    return client.messages.batches.create(requests=requests)  # type: ignore[arg-type]  # temperature, which we take


def until_ended(client: anthropic.Anthropic, batch: MessageBatch) -> MessageBatch:
    deadline = time.monotonic() + 180
    while (found := client.messages.batches.retrieve(batch.id)).processing_status != "ended":
        assert time.monotonic() < deadline, found
        time.sleep(0.3)
    return found


def kinds_of(client: anthropic.Anthropic, batch: MessageBatch, count: int) -> Counter[str]:
    """How many results there are of each kind; each request has one."""
    results = list(client.messages.batches.results(batch.id))
    assert sorted(result.custom_id for result in results) == sorted(f"r{number}" for number in range(count))
    return Counter(result.result.type for result in results)


def test_it_works(simulated: Product) -> None:
    with client_of(simulated, "batches") as client:
        batch = create(client, 30)
        assert batch.request_counts.processing == 30
        assert until_ended(client, batch).request_counts.succeeded == 30
        assert kinds_of(client, batch, 30) == {"succeeded": 30}
        assert [found.id for found in client.messages.batches.list()] == [batch.id]
        client.messages.batches.delete(batch.id)
        with pytest.raises(anthropic.NotFoundError):
            client.messages.batches.retrieve(batch.id)


def test_what_runs_is_canceled(simulated: Product) -> None:
    with client_of(simulated, "canceled") as client:
        batch = create(client, 100, max_tokens=2000)
        time.sleep(2)
        assert client.messages.batches.cancel(batch.id).processing_status == "canceling"
        assert until_ended(client, batch).request_counts.canceled == 100
        assert kinds_of(client, batch, 100) == {"canceled": 100}


def test_nothing_is_lost_or_done_twice(product: Product) -> None:
    with client_of(product, "chaos") as client:
        batch = create(client, 300, max_tokens=30)
        for word in ("-A config worker", "-m inference", "manage.py gateway", "redis-server", "-A config worker"):
            time.sleep(2)
            os.kill(product.processes(word)[0], signal.SIGKILL)
        time.sleep(2)
        assert product.stop() == 0
        product.start()
        until_ended(client, batch)
        assert kinds_of(client, batch, 300) == {"succeeded": 300}
        results = client.messages.batches.results(batch.id)
        messages = sorted(r.result.message.id for r in results if r.result.type == "succeeded")
        key = str(client.api_key)
    deadline = time.monotonic() + 20
    while len(rows := all_records(product, key)) < 300 and time.monotonic() < deadline:
        time.sleep(0.3)
    assert sorted(row["id"] for row in rows) == messages
    assert {(row["outcome"], row["output_tokens"]) for row in rows} == {("max_tokens", 30)}
