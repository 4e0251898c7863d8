"""GET /v1/models, /healthz and /readyz."""

from __future__ import annotations

import asyncio
import json
import time

import anthropic
import openai
import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st

from inference.protocol import keys
from inference.protocol.settings import Settings
from streaming.catalog import Model
from streaming.gateway import Gateway
from streaming.models import page_of
from streaming.prompts import PromptTemplate
from tests.streaming.conftest import Ask
from tests.streaming.official import anthropic_client, openai_client


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


@pytest.mark.parametrize(
    "row", ["what a version to come may say", "[]", '{"seen_at": 9e9}', '{"model": 1, "seen_at": 9e9, "started_at": 0}']
)
async def test_a_heartbeat_that_cannot_be_read_hides_no_other(
    ask: Ask, gateway: Gateway, store: redis.Redis, settings: Settings, caplog: pytest.LogCaptureFixture, row: str
) -> None:
    store.hset(keys.WORKERS, "aaa", row)
    for _ in range(2):
        await gateway.catalog.refresh()
    r = await (await ask("GET", "/v1/models")).whole()
    assert [model["id"] for model in r.json()["data"]] == [settings.model]
    assert sum("the heartbeat of aaa cannot be read" in line for line in caplog.messages) == 1
    assert (await gateway.look()).workers.keys() >= gateway.catalog.workers.keys()


async def test_a_heartbeat_that_cannot_be_read_is_no_lasting_harm(ask: Ask, store: redis.Redis) -> None:
    store.hset(keys.WORKERS, "strange", "what a version to come may say")
    assert (await (await ask("GET", "/v1/models")).whole()).status == 200
    store.hdel(keys.WORKERS, "strange")
    async with asyncio.timeout(10):
        while not (await (await ask("GET", "/v1/models")).whole()).json()["data"]:
            await asyncio.sleep(0.1)


@pytest.fixture(scope="module")
def models(template: PromptTemplate) -> list[Model]:
    return [Model(f"m{number:02}", template, 100, float(number)) for number in range(50)]


class TestPages:
    @pytest.mark.parametrize(
        ("query", "first", "last", "has_more"),
        [
            ({}, "m00", "m19", True),
            ({"limit": "50"}, "m00", "m49", False),
            ({"limit": "1000"}, "m00", "m49", False),
            ({"after_id": "m29"}, "m30", "m49", False),
            ({"after_id": "m28"}, "m29", "m48", True),
            ({"before_id": "m20"}, "m00", "m19", False),
            ({"before_id": "m30", "limit": "5"}, "m25", "m29", True),
        ],
    )
    def test_it_works(self, models: list[Model], query: dict[str, str], first: str, last: str, has_more: bool) -> None:
        page, more = page_of(models, query, limit=20)
        assert (page[0].name, page[-1].name, more) == (first, last, has_more)

    @given(count=st.integers(0, 50), limit=st.integers(1, 60))
    def test_pages_make_up_the_whole_list(self, models: list[Model], count: int, limit: int) -> None:
        served = models[:count]
        forth, more = page_of(served, {}, limit=limit)
        while more:
            page, more = page_of(served, {"after_id": forth[-1].name}, limit=limit)
            forth += page
        assert forth == served
        back = served[-1:]
        more = bool(served)
        while more:
            page, more = page_of(served, {"before_id": back[0].name}, limit=limit)
            back = page + back
        assert back == served

    @pytest.mark.parametrize("query", [{"after_id": "m49"}, {"before_id": "m00"}])
    def test_there_may_be_nothing_left(self, models: list[Model], query: dict[str, str]) -> None:
        assert page_of(models, query, limit=20) == ([], False)

    @pytest.mark.parametrize(
        ("query", "said"),
        [
            ("limit=0", "limit: expected a whole number from 1 to 1000."),
            ("limit=1001", "limit: expected a whole number"),
            ("limit=ten", "limit: expected a whole number"),
            ("limit=", "limit: expected a whole number"),
            ("after_id=other", "after_id: expected the id of a model in this list."),
            ("before_id=", "before_id: expected the id"),
            ("after_id=a&before_id=b", "before_id: give it or after_id, not both."),
            ("lifecycle=active", "lifecycle: no such query parameter"),
        ],
    )
    async def test_it_refuses_by_name(self, ask: Ask, query: str, said: str) -> None:
        r = await (await ask("GET", f"/v1/models?{query}")).whole()
        assert r.status == 400
        assert r.json()["error"]["message"].startswith(said)


class TestOfficialClients:
    @pytest.fixture
    async def many(
        self, gateway: Gateway, template: PromptTemplate, store: redis.Redis, settings: Settings
    ) -> list[str]:
        """The names of 51 models, each served by a worker of its own."""
        names = [f"m{number:02}" for number in range(50)]
        for number, name in enumerate(names):
            about = {"model": name, "seen_at": time.time(), "started_at": number, "context_length": 100}
            store.hset(keys.WORKERS, f"worker of {name}", json.dumps(about))
            gateway.catalog._templates[name] = template
        await gateway.catalog.refresh()
        return [*names, settings.model]

    @pytest.mark.parametrize("more", [{}, {"api_key": None, "auth_token": "good"}])
    async def test_anthropics_turns_the_pages(
        self, gateway: Gateway, many: list[str], more: dict[str, str | None]
    ) -> None:
        async with anthropic_client(gateway, **more) as client:
            first = await client.models.list()
            assert [model.id for model in first.data] == many[:20]
            assert [model.id async for model in client.models.list()] == many
            assert [model.id async for model in client.beta.models.list(limit=7)] == many
            assert [model.id async for model in client.models.list(before_id=many[30], limit=30)] == many[:30]
            with pytest.raises(anthropic.BadRequestError, match="after_id"):
                await client.models.list(after_id="other")

    async def test_openais_gets_all(self, gateway: Gateway, many: list[str]) -> None:
        async with openai_client(gateway) as client:
            assert [model.id async for model in client.models.list()] == many
            with pytest.raises(openai.BadRequestError) as caught:
                await client.models.list(extra_query={"after": "m01"})
        assert (caught.value.param, caught.value.code) == ("after", "unknown_parameter")
