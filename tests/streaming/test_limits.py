"""Limits through the gateway: what is told, what is given back, what is counted in the end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest
import redis

from accounts.callers import Caller, Quota
from common.errors import ApiError
from inference.protocol import keys, quotas
from inference.protocol.requests import GenerationRequest
from streaming.asgi import Scope
from streaming.gateway import Gateway
from tests.quotas.tools import Books
from tests.streaming.conftest import CALLER, Ask, Response, a_body
from tests.streaming.test_full_redis import full

Limit = Callable[[Quota], None]


@pytest.fixture
def limit(gateway: Gateway) -> Limit:
    """Give the caller limits."""

    class Limited:
        def __init__(self, quota: Quota) -> None:
            self._caller = replace(CALLER, key_quota=quota)

        async def authenticate(self, scope: Scope, *, needs: str) -> Caller:
            return self._caller

    def give(quota: Quota) -> None:
        gateway.authenticator = Limited(quota)  # type: ignore[assignment]  # no database in these tests

    return give


@pytest.fixture
def books(store: redis.Redis) -> Books:
    return Books(store)


async def posted(ask: Ask, path: str = "/v1/messages", **more: Any) -> Response:
    r: Response = await (await ask("POST", path, a_body(**more))).whole()
    return r


async def until_idle(books: Books) -> None:
    async with asyncio.timeout(5):
        while books.held():
            await asyncio.sleep(0.01)


async def test_it_works(ask: Ask, limit: Limit, books: Books) -> None:
    limit(Quota(rpm=2, budget_tokens=5000))
    first = await posted(ask)
    assert (first.status, first.headers["anthropic-ratelimit-requests-remaining"]) == (200, "1")
    used = sum(first.json()["usage"][kind] for kind in ("input_tokens", "output_tokens"))
    await until_idle(books)
    assert books.spent()["total"] == books.spent("org_1")["total"] == used
    second = await posted(ask, stream=True)
    assert second.headers["content-type"].startswith("text/event-stream")
    assert second.headers["anthropic-ratelimit-requests-remaining"] == "0"
    refused = await posted(ask)
    assert refused.status == 429
    assert refused.json()["error"] == {
        "type": "rate_limit_error", "message": "The key's limit is 2 requests a minute. Try again later.",
    }  # fmt: skip
    assert refused.headers["anthropic-ratelimit-requests-limit"] == "2"
    assert 0 < int(refused.headers["retry-after"]) <= 30
    assert "x-should-retry" not in refused.headers


async def test_openai_clients_get_their_own_headers(ask: Ask, limit: Limit) -> None:
    limit(Quota(rpm=1, budget_tokens_day=1000))
    first = await posted(ask, "/v1/chat/completions")
    assert first.headers["x-ratelimit-limit-requests"] == "1"
    assert first.headers["x-ratelimit-remaining-tokens"].isdecimal()
    assert first.headers["x-ratelimit-reset-requests"] == "1m0s"
    refused = await posted(ask, "/v1/chat/completions")
    assert (refused.status, refused.json()["error"]["code"]) == (429, "rate_limit_exceeded")
    assert refused.headers["x-ratelimit-remaining-requests"] == "0"
    assert not any(name.startswith("anthropic-") for name in refused.headers)


async def test_detached_messages_are_admitted_too(ask: Ask, limit: Limit) -> None:
    limit(Quota(max_streams=1))
    first = await posted(ask, "/v1/streams", max_tokens=200)
    assert first.status == 202
    assert (await posted(ask, "/v1/streams")).status == 429


async def test_slots_come_back(ask: Ask, limit: Limit, books: Books) -> None:
    limit(Quota(max_streams=3))
    for _ in range(2):
        answers = await asyncio.gather(*(posted(ask, max_tokens=20) for _ in range(8)))
        assert sorted(r.status for r in answers) == [200] * 3 + [429] * 5
        await until_idle(books)


async def test_a_client_that_leaves_gives_its_slot_back(ask: Ask, limit: Limit, books: Books) -> None:
    limit(Quota(max_streams=1))
    r = await ask("POST", "/v1/messages", a_body(max_tokens=5000, stream=True))
    await r.until(b"content_block_delta")
    await r.leave()
    await until_idle(books)


class TestGivenBack:
    """What goes wrong between admission and the queue."""

    @pytest.fixture(autouse=True)
    def _limits(self, limit: Limit) -> None:
        limit(Quota(rpm=100, itpm=100_000, otpm=1000, max_streams=1, budget_tokens=1000))

    async def test_the_queue_is_full(
        self, ask: Ask, gateway: Gateway, books: Books, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        enqueueing = gateway.log._enqueueing

        def into_a_full_queue(request: GenerationRequest) -> Any:
            script, names, arguments = enqueueing(request)
            return script, names, (*arguments[:-1], 0)

        with monkeypatch.context() as patch:
            patch.setattr(gateway.log, "_enqueueing", into_a_full_queue)
            for _ in range(3):
                assert (await posted(ask)).status == 529
        assert (books.held(), books.spent()) == (set(), {})
        assert (await posted(ask)).headers["anthropic-ratelimit-requests-remaining"] == "99"

    async def test_redis_is_full(self, ask: Ask, books: Books, store: redis.Redis) -> None:
        with full(store):
            assert (await posted(ask)).status == 529
        assert (books.held(), books.spent()) == (set(), {})
        assert (await posted(ask)).status == 200

    async def test_something_fails(
        self, ask: Ask, gateway: Gateway, books: Books, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def subscribe(*_: Any, **__: Any) -> None:
            raise ApiError("Out of luck.")

        monkeypatch.setattr(gateway.announcements, "subscribe", subscribe)
        assert (await posted(ask)).status == 500
        assert (books.held(), books.spent()) == (set(), {})

    @pytest.mark.parametrize("times", [1, 2])
    async def test_its_task_is_cancelled(
        self, call: Ask, gateway: Gateway, books: Books, monkeypatch: pytest.MonkeyPatch, times: int
    ) -> None:
        reached = asyncio.Event()
        run = gateway.log.run

        async def answer_never_comes(script: str, *arguments: Any) -> Any:
            reply = await run(script, *arguments)
            if "local standings" in script:
                reached.set()
                await asyncio.Event().wait()
            return reply

        monkeypatch.setattr(gateway.log, "run", answer_never_comes)
        waiting = await call("POST", "/v1/messages", a_body())
        await reached.wait()
        assert len(books.held()) == 1
        waiting.future.cancel()
        if times == 2:
            await asyncio.sleep(0)
            waiting.future.cancel()
        await until_idle(books)
        await waiting.wait()

    async def test_a_refused_request_frees_its_idempotency_key(self, ask: Ask, limit: Limit, books: Books) -> None:
        limit(Quota(budget_tokens=10))
        r = await (await ask("POST", "/v1/messages", a_body(), idempotency_key="k")).whole()
        assert r.status == 429
        limit(Quota())
        r = await (await ask("POST", "/v1/messages", a_body(), idempotency_key="k")).whole()
        assert r.status == 200

    async def test_what_failed_frees_it_too(self, ask: Ask, gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(gateway.announcements, "subscribe", lambda *_, **__: 1 / 0)
            r = await (await ask("POST", "/v1/messages", a_body(), idempotency_key="k")).whole()
            assert r.status == 500
        r = await (await ask("POST", "/v1/messages", a_body(), idempotency_key="k")).whole()
        assert r.status == 200


async def test_a_repeated_idempotency_key_takes_nothing(ask: Ask, limit: Limit, books: Books) -> None:
    limit(Quota(rpm=1))
    answers = [
        await (await ask("POST", "/v1/messages", a_body(), idempotency_key="k")).whole() for _ in range(3)
    ]  # fmt: skip
    assert [r.status for r in answers] == [200] * 3
    assert len({r.json()["id"] for r in answers}) == 1


async def test_a_shadow_limit_refuses_nothing_and_is_counted(
    ask: Ask, limit: Limit, gateway: Gateway, store: redis.Redis
) -> None:
    limit(Quota(rpm=1, shadow=True))
    answers = [await posted(ask) for _ in range(3)]
    assert [r.status for r in answers] == [200] * 3
    assert not any(name.startswith("anthropic-ratelimit") for r in answers for name in r.headers)
    limit(Quota(rpm=1))
    await posted(ask)
    await gateway.measures.flush()
    counts = {name: int(value) for name, value in cast(dict[bytes, bytes], store.hgetall(keys.COUNTS)).items()}
    assert counts[b"limited_total|key|rpm|shadow"] == 2
    assert counts[b"limited_total|key|rpm|enforced"] == 1


async def test_a_caller_without_limits_is_counted_at_its_end_alone(
    ask: Ask, gateway: Gateway, books: Books, store: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(*_: Any) -> None:
        raise AssertionError("asked for nothing")

    monkeypatch.setattr(gateway.log, "run", never)
    r = await posted(ask)
    assert r.status == 200
    assert not any("ratelimit" in name for name in r.headers)
    assert not store.exists(quotas.reservations("org_1"))
    async with asyncio.timeout(5):
        while not books.spent():
            await asyncio.sleep(0.01)
