"""What a policy's name stands for now."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import redis
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from common.errors import Unavailable
from inference.protocol import keys
from inference.protocol.policies import CURRENT
from inference.protocol.settings import Settings
from streaming.catalog import Catalog
from streaming.gateway import Gateway
from streaming.intake import prepare
from streaming.policies import Policies
from streaming.timing import Stopwatch
from streaming.wanted import Wanted
from tests.streaming.conftest import CALLER, Ask, a_body


@pytest.fixture
async def policies(store: redis.Redis, redis_server: str) -> AsyncIterator[Policies]:
    client: Redis = Redis.from_url(redis_server)
    yield Policies(client)
    await client.aclose()


async def test_it_works(policies: Policies, store: redis.Redis) -> None:
    store.hset(CURRENT, "strict", "0a")
    await policies.refresh()
    assert await policies.reference("strict") == "strict@0a"


async def test_off_needs_no_definition(policies: Policies) -> None:
    assert await policies.reference("off") == "off"


async def test_one_as_new_as_its_key_is_asked_for(policies: Policies, store: redis.Redis) -> None:
    await policies.refresh()
    store.hset(CURRENT, "new", "0b")
    assert await policies.reference("new") == "new@0b"


async def test_a_change_is_followed(policies: Policies, store: redis.Redis) -> None:
    for digest in ("0a", "0b"):
        store.hset(CURRENT, "strict", digest)
        await policies.refresh()
        assert await policies.reference("strict") == f"strict@{digest}"


async def test_the_catalog_keeps_them_fresh(store: redis.Redis, policies: Policies, settings: Settings) -> None:
    catalog = Catalog(policies._redis, settings)
    for digest in ("0a", "0b"):
        store.hset(CURRENT, "strict", digest)
        await catalog.refresh()
        assert await catalog.policies.reference("strict") == f"strict@{digest}"


async def test_an_unknown_one_is_an_error(policies: Policies) -> None:
    with pytest.raises(Unavailable, match="The safety policy strict cannot be found now") as refused:
        await policies.reference("strict")
    assert "retry-after" in refused.value.headers


async def test_while_redis_is_away_the_last_known_counts(policies: Policies, store: redis.Redis) -> None:
    store.hset(CURRENT, "strict", "0a")
    await policies.refresh()
    policies._redis = Redis(host="127.0.0.1", port=1, retry=Retry(NoBackoff(), 0))
    with pytest.raises(redis.ConnectionError):
        await policies.refresh()
    assert await policies.reference("strict") == "strict@0a"
    with pytest.raises(Unavailable):
        await policies.reference("standard")


async def test_a_gateway_lets_nothing_by_unchecked(
    ask: Ask, gateway: Gateway, store: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.streaming.conftest.CALLER", replace(CALLER, policy="strict"))
    r = await (await ask("POST", "/v1/messages", a_body())).whole()
    assert (r.status, r.json()["error"]["type"]) == (503, "api_error")
    assert "strict" in r.json()["error"]["message"]
    assert not store.exists(keys.payloads(gateway.settings.model))


async def test_a_request_carries_name_and_digest(gateway: Gateway, store: redis.Redis) -> None:
    store.hset(CURRENT, "strict", "0a")
    await gateway.catalog.refresh()
    wanted = Wanted(model="default", max_tokens=1, turns=[{"role": "user", "content": "Hi"}])
    request = await prepare(gateway.catalog, wanted, replace(CALLER, policy="strict"), Stopwatch())
    assert request.policy == "strict@0a"
