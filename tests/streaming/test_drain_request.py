"""A gateway that an operator asked to drain."""

from __future__ import annotations

import asyncio
import json

import redis

from inference.protocol import drains, keys
from streaming.gateway import Gateway
from tests.streaming.conftest import Ask


def heartbeat(store: redis.Redis, gateway: Gateway) -> dict[str, object]:
    raw = store.hget(keys.GATEWAYS, gateway.id)
    assert isinstance(raw, bytes)
    return dict(json.loads(raw))


async def test_it_works(ask: Ask, gateway: Gateway, store: redis.Redis) -> None:
    stopped = asyncio.Event()
    gateway.stop = stopped.set
    await gateway.started()
    await gateway.look()
    about = heartbeat(store, gateway)
    assert about["draining"] is False

    store.set(keys.drain(gateway.id), drains.note(float(str(about["started_at"]))))
    async with asyncio.timeout(5):
        await stopped.wait()

    assert gateway.asked_to_drain
    await gateway.drain.run()
    await gateway.look()
    assert heartbeat(store, gateway)["draining"] is True


async def test_a_note_for_one_that_began_at_another_time_is_not_for_it(gateway: Gateway, store: redis.Redis) -> None:
    store.set(keys.drain(gateway.id), drains.note(1.0))
    await gateway.started()
    await gateway._look_for_drain()
    assert not gateway.asked_to_drain
