"""GET /v1/models, /healthz and /readyz."""

from __future__ import annotations

import redis

from inference.protocol import keys
from inference.protocol.settings import Settings
from streaming.gateway import Gateway
from tests.streaming.conftest import Ask


async def test_it_works(ask: Ask, settings: Settings) -> None:
    r = await (await ask("GET", "/v1/models")).whole()
    assert [model["id"] for model in r.json()["data"]] == [settings.model]
    assert r.json()["has_more"] is False


async def test_one_model_by_name_or_as_the_default(ask: Ask, settings: Settings) -> None:
    for name in (settings.model, "default"):
        assert (await (await ask("GET", f"/v1/models/{name}")).whole()).json()["id"] == settings.model


async def test_it_refuses_an_unknown_model_and_a_wrong_key(ask: Ask) -> None:
    assert (await (await ask("GET", "/v1/models/other")).whole()).status == 404
    assert (await (await ask("GET", "/v1/models", key="bad")).whole()).status == 401


async def test_ready_needs_a_worker(ask: Ask, gateway: Gateway, store: redis.Redis) -> None:
    assert (await (await ask("GET", "/readyz")).whole()).status == 200
    gateway.catalog.workers.clear()
    r = await (await ask("GET", "/readyz")).whole()
    assert (r.status, r.json()["status"]) == (503, "no worker is ready")
    assert (await (await ask("GET", "/healthz")).whole()).status == 200


async def test_a_worker_that_is_long_gone_is_forgotten(gateway: Gateway, store: redis.Redis) -> None:
    store.hset(keys.WORKERS, "ghost", '{"model": "m", "seen_at": 0}')
    await gateway.catalog.refresh()
    assert "ghost" not in gateway.catalog.workers
    assert not store.hexists(keys.WORKERS, "ghost")
