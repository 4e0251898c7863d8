"""`Idempotency-Key`: one message, whatever is sent how often."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
import redis

from inference.protocol import keys
from inference.protocol.settings import Settings
from tests.streaming.conftest import Ask, Response, a_body, settlement_of


async def post(ask: Ask, key: str = "k", path: str = "/v1/streams", **more: Any) -> Response:
    response: Response = await (await ask("POST", path, a_body(**more), idempotency_key=key)).whole()
    return response


async def test_it_works(ask: Ask) -> None:
    first, second = [(await post(ask)).json()["id"] for _ in range(2)]
    assert first == second
    assert (await post(ask, key="other")).json()["id"] != first


async def test_many_at_the_same_moment_are_one(ask: Ask, store: redis.Redis, settings: Settings) -> None:
    answers = await asyncio.gather(*(post(ask) for _ in range(8)))
    assert len({answer.json()["id"] for answer in answers}) == 1
    await settlement_of(store, settings)


async def test_another_body_is_a_conflict(ask: Ask) -> None:
    await post(ask)
    r = await post(ask, text="Something else.")
    assert (r.status, r.json()["error"]["type"]) == (409, "conflict_error")


async def test_a_lost_post_is_taken_up_again(ask: Ask, store: redis.Redis, settings: Settings) -> None:
    body = a_body(max_tokens=60, stream=True)
    lost = await ask("POST", "/v1/messages", body, idempotency_key="k")
    await lost.until(b"content_block_delta")
    await lost.leave()
    again = await (await ask("POST", "/v1/messages", body, idempotency_key="k")).whole()
    assert again.events[0] == lost.events[0]
    assert again.events[-2]["usage"]["output_tokens"] == 60
    assert (await settlement_of(store, settings)).outcome == "max_tokens"


async def test_a_wish_to_cancel_beats_the_key(ask: Ask, store: redis.Redis, settings: Settings) -> None:
    body = a_body(max_tokens=5000, stream=True)
    r = await ask("POST", "/v1/messages", body, idempotency_key="k", x_sluice_on_disconnect="cancel")
    await r.until(b"content_block_delta")
    await r.leave()
    assert (await settlement_of(store, settings)).outcome == "client_gone"


async def test_an_expired_message_is_gone(ask: Ask, store: redis.Redis, settings: Settings) -> None:
    made = (await post(ask)).json()["id"]
    await settlement_of(store, settings)
    store.delete(keys.log(made), keys.meta(made))
    assert (await post(ask)).status == 410


@pytest.mark.parametrize(("header", "value"), [("idempotency_key", "k" * 256), ("x_sluice_on_disconnect", "maybe")])
async def test_it_refuses_what_it_does_not_know(ask: Ask, header: str, value: str) -> None:
    r = await (await ask("POST", "/v1/messages", a_body(), **{header: value})).whole()
    assert r.status == 400
    assert header.replace("_", "-") in r.json()["error"]["message"]


class TestRefused:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        return replace(settings, queue_limit=1)

    async def test_a_refused_request_gives_its_key_back(self, ask: Ask, store: redis.Redis, settings: Settings) -> None:
        store.zadd(keys.ready(settings.model), {str(i): 9e15 for i in range(5000)})
        assert (await post(ask)).status == 529
        store.delete(keys.ready(settings.model))
        assert (await post(ask)).status == 202
