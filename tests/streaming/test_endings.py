"""Who ends a stream first: DESIGN's table, row by row, over a gateway and a worker.

Here are the model, its client and time; what fails on our side is in `test_faults`. What needs processes of its own
(gateways that die, workers that are killed, a Redis that goes away) is in tests/e2e.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
import redis

from inference.engines.simulated import SimulatedEngine
from inference.protocol.events import PING
from inference.protocol.settings import Settings
from streaming.gateway import Gateway
from streaming.readers import Reading
from streaming.relay import relay
from streaming.surfaces.anthropic import TypedEvents
from streaming.timing import Stopwatch
from tests.streaming.conftest import Ask, Response, a_body, settlement_of
from tests.streaming.ending import MANY, detached, error_of, get, id_of, kinds, post, released, until


class TestTheModel:
    @pytest.mark.parametrize(
        ("more", "reason"),
        [
            ({"text": "SLUICE-SAY: One two"}, "end_turn"),
            ({"max_tokens": 4}, "max_tokens"),
            ({"text": "SLUICE-SAY: One two three four", "stop_sequences": [" three"]}, "stop_sequence"),
        ],
    )
    async def test_the_client_is_told_why(
        self, ask: Ask, store: redis.Redis, settings: Settings, more: dict[str, Any], reason: str
    ) -> None:
        r = await (await post(ask, **more)).whole()
        assert kinds(r)[-3:] == ["content_block_stop", "message_delta", "message_stop"]
        settlement = await settlement_of(store, settings)
        assert r.events[-2]["delta"]["stop_reason"] == settlement.outcome == reason
        assert r.events[-2]["usage"]["output_tokens"] == settlement.output_tokens == released(r, store)


class TestTheClient:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        return replace(settings, resume_window_s=0.5)

    async def test_its_message_is_closed_with_cancelled(self, ask: Ask, store: redis.Redis, settings: Settings) -> None:
        r = await post(ask)
        await r.leave()
        settlement = await settlement_of(store, settings)
        assert settlement.outcome == "client_gone"
        assert settlement.output_tokens == released(r, store)
        log = await (await get(ask, id_of(r))).whole()
        assert kinds(log)[-3:] == ["content_block_stop", "message_delta", "message_stop"]
        assert log.events[-2]["delta"]["stop_reason"] == "cancelled"

    @pytest.mark.parametrize("wish", [{"idempotency_key": "k"}, {"x_sluice_on_disconnect": "continue"}])
    async def test_one_that_may_come_back_has_the_window(
        self, ask: Ask, store: redis.Redis, settings: Settings, wish: dict[str, str]
    ) -> None:
        r = await post(ask, **wish)
        await r.leave()
        settlement = await settlement_of(store, settings)
        assert settlement.outcome == "abandoned"
        assert settlement.output_tokens == released(r, store)

    @pytest.mark.parametrize("wish", [{"idempotency_key": "k"}, {"x_sluice_on_disconnect": "continue"}])
    async def test_one_that_comes_back_goes_on(
        self, ask: Ask, store: redis.Redis, settings: Settings, wish: dict[str, str]
    ) -> None:
        r = await post(ask, max_tokens=60, **wish)
        await r.leave()
        rest = await (await get(ask, id_of(r), last_event_id="2")).whole()
        assert rest.body.startswith(b"id: 3\n")
        assert (await settlement_of(store, settings)).outcome == "max_tokens"

    async def test_a_reader_that_comes_back_goes_on(self, ask: Ask, store: redis.Redis, settings: Settings) -> None:
        message_id = await detached(ask, max_tokens=80)
        for position in ("10", "20", "30"):
            r = await get(ask, message_id)
            await r.until(f"id: {position}\n".encode())
            await r.leave()
        await (await get(ask, message_id)).whole()
        assert (await settlement_of(store, settings)).outcome == "max_tokens"


class TestASlowClient:
    @pytest.mark.parametrize("posted", [True, False])
    async def test_it_is_dropped_and_its_message_goes_on(
        self, ask: Ask, gateway: Gateway, store: redis.Redis, settings: Settings, posted: bool
    ) -> None:
        if posted:
            r = await post(ask, max_tokens=60)
        else:
            r = await get(ask, await detached(ask, max_tokens=60))
            await r.until(b"content_block_delta")
        (reading,) = gateway.readers._all
        reading.slow.set()  # as `Readers` finds out
        await r.communicator.wait()
        assert b"message_stop" not in r.body
        assert (await settlement_of(store, settings)).outcome == "max_tokens"
        rest = await (await get(ask, id_of(r), last_event_id="3")).whole()
        assert rest.events[-1]["type"] == "message_stop"

    async def test_heartbeats_do_not_queue_up(self) -> None:
        writes: list[bytes] = []
        full = asyncio.Event()

        async def silence(timeout: float) -> None:
            await asyncio.sleep(0)

        async def write(body: bytes) -> None:
            writes.append(body)
            await full.wait()

        reader: Any = SimpleNamespace(next=silence, ended=False)
        reading = Reading("msg_1", cast(Any, None), reader)
        work = asyncio.create_task(relay(reading, write, Stopwatch(), TypedEvents(), heartbeat_s=0.01))
        await asyncio.sleep(0.1)
        assert writes == [PING], "the next one waits until this one is out"
        assert reading.blocked_since is not None
        work.cancel()


class TestCancel:
    async def test_a_json_answer_is_what_there_is(self, call: Ask, ask: Ask, store: redis.Redis) -> None:
        waiting = await call("POST", "/v1/messages", a_body(max_tokens=MANY))
        await until(lambda: store.keys("sluice:{msg_*}:log"))
        ((name,),) = [cast(list[bytes], store.keys("sluice:{msg_*}:log"))]
        await until(lambda: store.xlen(name) > 5)
        message_id = name.decode().split("{")[1].split("}")[0]
        assert (await (await ask("DELETE", f"/v1/streams/{message_id}")).whole()).status == 200
        start = await waiting.receive_output(10)
        r = Response(waiting, start["status"], {})
        await r.whole()
        assert (r.status, r.json()["stop_reason"]) == (200, "cancelled")
        assert r.json()["content"][0]["text"]

    async def test_one_that_waits_ends_without_a_block(
        self, ask: Ask, store: redis.Redis, settings: Settings, idle: SimulatedEngine
    ) -> None:
        message_id = await detached(ask)
        await (await ask("DELETE", f"/v1/streams/{message_id}")).whole()
        idle.max_batch = 64
        r = await (await get(ask, message_id)).whole()
        assert kinds(r) == ["message_start", "message_delta", "message_stop"]
        settlement = await settlement_of(store, settings)
        assert (settlement.outcome, settlement.output_tokens) == ("cancelled", 0)


class TestTimeInTheQueue:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        return replace(settings, queue_timeout_s=0.2)

    async def test_a_json_answer_is_a_504(
        self, ask: Ask, store: redis.Redis, settings: Settings, idle: SimulatedEngine
    ) -> None:
        r = await (await ask("POST", "/v1/messages", a_body())).whole()
        assert (r.status, r.json()["error"]["type"]) == (504, "timeout_error")
        settlement = await settlement_of(store, settings)
        assert (settlement.outcome, settlement.output_tokens) == ("timeout", 0)

    async def test_a_stream_ends_with_an_error(
        self, ask: Ask, store: redis.Redis, settings: Settings, idle: SimulatedEngine
    ) -> None:
        r = await (await ask("POST", "/v1/messages", a_body(stream=True))).whole()
        assert kinds(r) == ["message_start", "error"]
        assert r.events[-1]["error"]["type"] == "timeout_error"
        assert (await settlement_of(store, settings)).outcome == "timeout"


class TestTimeInAll:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        return replace(settings, request_timeout_s=0.4)

    async def test_a_stream_ends_with_an_error(self, ask: Ask, store: redis.Redis, settings: Settings) -> None:
        r = await (await post(ask)).whole()
        assert error_of(r) == "timeout_error"
        settlement = await settlement_of(store, settings)
        assert settlement.outcome == "timeout"
        assert settlement.output_tokens == released(r, store) > 0

    async def test_a_json_answer_is_a_504(self, ask: Ask) -> None:
        r = await (await ask("POST", "/v1/messages", a_body(max_tokens=MANY))).whole()
        assert (r.status, r.json()["error"]["type"]) == (504, "timeout_error")
