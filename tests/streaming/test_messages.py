"""POST /v1/messages through the gateway, a real Redis and a worker."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from dataclasses import replace
from typing import Any

import pytest
import redis

from inference.protocol import keys
from inference.protocol.reports import Delivery
from inference.protocol.settings import Settings
from streaming import posting
from streaming.gateway import Gateway
from streaming.surfaces.anthropic import TypedEvents, assemble
from tests.inference.tools import entries_of
from tests.streaming.conftest import Ask, a_body, settlement_of


async def test_it_works(ask: Ask) -> None:
    r = await (await ask("POST", "/v1/messages", a_body("SLUICE-SAY: Hi 🙂 there", max_tokens=50, stream=True))).whole()
    assert r.status == 200
    assert r.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert (r.headers["cache-control"], r.headers["x-accel-buffering"]) == ("no-store", "no")
    assert r.headers["request-id"].startswith("req_")
    assert "content-encoding" not in r.headers
    text = "".join(e["delta"]["text"] for e in r.events if e["type"] == "content_block_delta")
    assert text == "Hi 🙂 there"
    assert [e["type"] for e in r.events][-3:] == ["content_block_stop", "message_delta", "message_stop"]
    assert r.body.count(b"retry: ") == 1
    assert r.body.startswith(b"retry: ")


async def test_each_write_is_whole_frames(ask: Ask) -> None:
    r = await (await ask("POST", "/v1/messages", a_body(stream=True))).whole()
    assert all(write.endswith(b"\n\n") for write in r.writes if write)
    assert len(r.writes) > 5


async def test_an_answer_as_one_json(ask: Ask) -> None:
    r = await (await ask("POST", "/v1/messages", a_body("SLUICE-SAY: Hello", max_tokens=50))).whole()
    message = r.json()
    assert message["content"] == [{"type": "text", "text": "Hello"}]
    assert (message["stop_reason"], message["usage"]["output_tokens"]) == ("end_turn", 1)


async def test_a_delivery_is_reported(ask: Ask, store: redis.Redis, gateway: Gateway) -> None:
    came = f"t={time.time() - 2:.3f}"
    r = await (await ask("POST", "/v1/messages", a_body(stream=True), x_request_start=came)).whole()
    async with asyncio.timeout(5):
        while not (entries := entries_of(store, keys.DELIVERIES)):
            await asyncio.sleep(0.01)
    delivery = Delivery.decode(entries[0][1][b"r"])
    assert delivery.id == r.events[0]["message"]["id"]
    assert delivery.gateway == gateway.id
    assert delivery.bytes_sent == len(r.body)
    assert delivery.ttft_ms is not None
    assert 0 < delivery.ttft_ms <= delivery.total_ms
    assert 2000 <= delivery.stages["proxy_ms"] < 10_000


async def test_a_client_that_leaves_stops_the_worker(ask: Ask, store: redis.Redis, settings: Settings) -> None:
    r = await ask("POST", "/v1/messages", a_body(max_tokens=5000, stream=True))
    await r.until(b"content_block_delta")
    await r.leave()
    settlement = await settlement_of(store, settings)
    assert settlement.outcome == "client_gone"
    assert settlement.output_tokens < 100


async def test_a_client_that_leaves_a_json_answer_stops_it_too(
    call: Ask, store: redis.Redis, settings: Settings
) -> None:
    waiting = await call("POST", "/v1/messages", a_body(max_tokens=5000))
    async with asyncio.timeout(5):
        while not store.zcard(keys.leases(settings.model)):
            await asyncio.sleep(0.01)
    await waiting.send_input({"type": "http.disconnect"})
    assert (await settlement_of(store, settings)).outcome == "client_gone"
    await waiting.wait()


async def test_nothing_stays_behind(ask: Ask, gateway: Gateway, store: redis.Redis, settings: Settings) -> None:
    for _ in range(3):
        await (await ask("POST", "/v1/messages", a_body(stream=True))).whole()
    assert gateway.announcements._readers == {}
    assert gateway.drain.open == 0
    assert gateway.readers.count == 0
    assert not store.exists(keys.payloads(settings.model), keys.leases(settings.model), keys.attempts(settings.model))


@pytest.mark.parametrize(
    ("body", "status", "kind", "said"),
    [
        (a_body(max_tokens=0), 400, "invalid_request_error", "max_tokens"),
        (a_body(max_tokens=10**9), 400, "invalid_request_error", "context"),
        (a_body(colour="red"), 400, "invalid_request_error", "colour"),
        (a_body(model="no-such"), 404, "not_found_error", "no-such"),
        (b"{", 400, "invalid_request_error", "JSON"),
    ],
)
async def test_it_refuses_before_the_stream(ask: Ask, body: object, status: int, kind: str, said: str) -> None:
    r = await (await ask("POST", "/v1/messages", body)).whole()
    assert (r.status, r.json()["error"]["type"]) == (status, kind)
    assert said in r.json()["error"]["message"]
    assert r.headers["request-id"] == r.json()["request_id"]


async def test_it_refuses_a_wrong_key(ask: Ask) -> None:
    r = await (await ask("POST", "/v1/messages", a_body(), key="bad")).whole()
    assert (r.status, r.json()["error"]["type"]) == (401, "authentication_error")


async def test_it_refuses_other_methods(ask: Ask) -> None:
    r = await (await ask("GET", "/v1/messages")).whole()
    assert (r.status, r.headers["allow"]) == (405, "POST")


async def test_it_refuses_a_body_that_is_too_large(ask: Ask, settings: Settings) -> None:
    r = await (await ask("POST", "/v1/messages", b" " * (settings.max_body_mb * 1_000_000 + 1))).whole()
    assert (r.status, r.json()["error"]["type"]) == (413, "request_too_large")


async def test_tokens_are_counted(ask: Ask) -> None:
    body = {"model": "default", "messages": [{"role": "user", "content": "Tell me."}]}
    r = await (await ask("POST", "/v1/messages/count_tokens", body)).whole()
    streamed = await (await ask("POST", "/v1/messages", a_body(stream=True))).whole()
    assert r.json() == {"input_tokens": streamed.events[0]["message"]["usage"]["input_tokens"]}


class TestHeartbeat:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        return replace(settings, heartbeat_s=0.1, sim_prefill_ms=700)

    async def test_it_runs_from_the_first_second_on(self, ask: Ask) -> None:
        r = await (await ask("POST", "/v1/messages", a_body(stream=True))).whole()
        kinds = [e["type"] for e in r.events]
        assert kinds[:3] == ["message_start", "ping", "ping"]
        assert r.body.count(b': ping\nevent: ping\ndata: {"type":"ping"}\n\n') == kinds.count("ping")


class TestFullQueue:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        return replace(settings, queue_limit=1)

    async def test_it_is_overloaded(self, ask: Ask, store: redis.Redis, settings: Settings) -> None:
        store.zadd(keys.ready(settings.model), {"a": 9e15, "b": 9e15})  # no payload: nobody can claim them
        r = await (await ask("POST", "/v1/messages", a_body(stream=True))).whole()
        if r.status == 200:  # the worker was quick to throw them away
            store.zadd(keys.ready(settings.model), {str(i): 9e15 for i in range(5000)})
            r = await (await ask("POST", "/v1/messages", a_body(stream=True))).whole()
        assert (r.status, r.json()["error"]["type"]) == (529, "overloaded_error")
        assert float(r.headers["retry-after"]) > 0


class TestDrain:
    async def test_open_streams_go_on_and_new_ones_are_refused(self, ask: Ask, gateway: Gateway) -> None:
        short = await ask("POST", "/v1/messages", a_body(max_tokens=20, stream=True))
        await short.until(b"content_block_delta")
        stopping = asyncio.create_task(gateway.drain.run())
        await asyncio.sleep(0)
        refused = await (await ask("POST", "/v1/messages", a_body(stream=True))).whole()
        assert refused.status == 503
        assert float(refused.headers["retry-after"]) > 0
        assert refused.headers["connection"] == "close"
        assert (await (await ask("GET", "/healthz")).whole()).status == 200
        assert (await (await ask("GET", "/readyz")).whole()).status == 503
        await short.whole()
        assert short.events[-2]["delta"]["stop_reason"] == "max_tokens"
        async with asyncio.timeout(1):
            await stopping

    async def test_those_that_are_left_get_a_farewell(
        self, ask: Ask, gateway: Gateway, store: redis.Redis, settings: Settings
    ) -> None:
        r = await ask("POST", "/v1/messages", a_body(max_tokens=5000, stream=True))
        await r.until(b"content_block_delta")
        await asyncio.gather(gateway.drain.run(), r.whole())
        tail = r.body.decode().split("\n\n")[-4:-1]
        assert [json.loads(f.rpartition("data: ")[2])["type"] for f in tail] == [
            "content_block_stop", "message_delta", "message_stop",
        ]  # fmt: skip
        assert not any(f.startswith("id:") for f in tail)
        end = r.events[-2]
        assert end["delta"]["stop_reason"] == "server_shutdown"
        written = sum(e["type"] == "content_block_delta" for e in r.events)
        assert end["usage"]["output_tokens"] >= written
        assert (await settlement_of(store, settings)).outcome == "client_gone"

    async def test_a_json_answer_that_is_left_is_refused(self, ask: Ask, gateway: Gateway) -> None:
        waiting = asyncio.create_task(ask("POST", "/v1/messages", a_body(max_tokens=5000)))
        async with asyncio.timeout(5):
            while not gateway.drain.open:
                await asyncio.sleep(0.01)
        await gateway.drain.run()
        r = await (await waiting).whole()
        assert (r.status, r.json()["error"]["type"]) == (503, "api_error")


async def test_a_long_answer_is_put_together_off_the_event_loop(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    where: list[threading.Thread] = []

    def whole(_: TypedEvents, frames: bytes) -> dict[str, Any]:
        where.append(threading.current_thread())
        return assemble(frames)

    monkeypatch.setattr(TypedEvents, "whole", whole)
    for limit in (posting.LONG_ANSWER, 100):
        monkeypatch.setattr(posting, "LONG_ANSWER", limit)
        r = await (await ask("POST", "/v1/messages", a_body())).whole()
        assert r.json()["stop_reason"] == "max_tokens"
    assert [thread is threading.main_thread() for thread in where] == [True, False]
