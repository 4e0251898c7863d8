"""What a gateway counts, on its way to Redis."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
import redis

from inference.protocol import keys, scripts
from inference.protocol.metrics import SLOW_CLIENTS, field_of
from inference.protocol.reports import Settlement, common_of
from streaming.gateway import Gateway
from tests.inference.tools import a_request


async def test_two_that_flush_at_once_send_it_once(
    gateway: Gateway, store: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, sent = gateway.log.run, 0

    async def counting(script: str, *rest: Any) -> Any:
        nonlocal sent
        if script == scripts.ADD_COUNTS:
            sent += 1
            gateway.measures.slow()  # what comes in between is for the next one
        return await run(script, *rest)

    monkeypatch.setattr(gateway.log, "run", counting)
    gateway.measures.slow()
    await asyncio.gather(gateway.measures.flush(), gateway.measures.flush())
    assert sent == 2
    assert store.hget(keys.COUNTS, field_of(SLOW_CLIENTS)) == b"2"


async def test_what_no_worker_settled_is_counted(gateway: Gateway, store: redis.Redis) -> None:
    settlement = Settlement(
        **common_of(a_request(prompt_ids=(1, 2, 3))), outcome="worker_lost", output_tokens=7, attempts=3, worker="g",
        finished_at=2.0, queue_ms=5.0, generation_ms=0.0,
    )  # fmt: skip
    gateway.measures.settled(settlement)
    gateway.measures.settled(replace(settlement, attempts=0))  # one of which nothing but its reader was left
    await gateway.measures.flush()
    counts = {name: store.hget(keys.COUNTS, name) for name in ("tokens_total|m|output", "retries_total|m")}
    assert counts == {"tokens_total|m|output": b"14", "retries_total|m": b"2"}


async def test_no_heartbeat_comes_after_it_left(gateway: Gateway, store: redis.Redis) -> None:
    await gateway.measures.flush()
    assert store.hexists(keys.GATEWAYS, gateway.id)
    await asyncio.gather(gateway.measures.leave(), gateway.measures.flush(), gateway.measures.flush())
    await gateway.measures.flush()
    assert not store.hexists(keys.GATEWAYS, gateway.id)
