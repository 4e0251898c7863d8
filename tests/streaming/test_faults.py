"""What dies, hangs or drains on our side, and what a client sees of it: more rows of DESIGN's table of endings."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, cast

import pytest
import redis
from tokenizers import Tokenizer

from inference.broker import Broker
from inference.detokenizer import Vocabulary
from inference.engines.base import FinishReason, StepOutput
from inference.engines.simulated import SimulatedEngine
from inference.protocol import keys, scripts
from inference.protocol.reports import Settlement
from inference.protocol.settings import Settings
from inference.worker import Worker
from streaming.endpoint import Call
from streaming.gateway import Gateway
from tests.inference.tools import entries_of, roll_back, snapshot
from tests.streaming.conftest import Ask, a_body, settlement_of
from tests.streaming.ending import MANY, detached, error_of, get, id_of, kinds, post, released, until


@pytest.fixture
def second(
    store: redis.Redis, settings: Settings, tokenizer: Tokenizer, vocabulary: Vocabulary
) -> Iterator[Callable[[], None]]:
    """Starts another worker."""
    engine = SimulatedEngine(tokenizer, context_length=8192, max_batch=64, prefill_s=0.0, tpot_s=0.005)
    broker = Broker(store, model=settings.model, lease_s=settings.lease_s, log_ttl_s=settings.event_log_ttl_s)
    worker = Worker(engine, broker, vocabulary, settings)
    broker.worker = "second"
    thread = threading.Thread(target=worker.run)
    yield thread.start
    worker.stop()
    thread.join(10)


class TestTheWorker:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        return replace(settings, lease_s=0.5)

    async def test_one_that_drains_is_followed(
        self, ask: Ask, store: redis.Redis, settings: Settings, worker: Worker, second: Callable[[], None]
    ) -> None:
        whole = await (await post(ask, max_tokens=60)).whole()
        store.delete(keys.settlements(settings.model))
        r = await post(ask, max_tokens=60)
        worker.stop()
        second()
        await r.whole()
        assert r.events[1:] == whole.events[1:], "nothing lost, doubled or altered"
        settlement = await settlement_of(store, settings)
        assert (settlement.outcome, settlement.output_tokens, settlement.attempts) == ("max_tokens", 60, 2)

    async def test_one_that_hangs_is_followed_and_fenced_off(
        self,
        ask: Ask,
        store: redis.Redis,
        settings: Settings,
        worker: Worker,
        second: Callable[[], None],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        awake = threading.Event()
        step = worker._engine.step

        def hang() -> list[StepOutput]:
            found = step()
            awake.wait(10)
            return found

        r = await post(ask, max_tokens=60)
        monkeypatch.setattr(worker._engine, "step", hang)
        second()
        await until(lambda: store.hget(keys.attempts(settings.model), id_of(r)) == b"2")
        awake.set()
        await r.whole()
        positions = [line for line in r.body.split(b"\n") if line.startswith(b"id: ")]
        assert positions == [b"id: %d" % (i + 1) for i in range(len(positions))]
        assert r.events[-2]["usage"]["output_tokens"] == 60
        settlement = await settlement_of(store, settings)
        assert (settlement.outcome, settlement.output_tokens, settlement.attempts) == ("max_tokens", 60, 2)
        assert worker._running == {}, "it saw the fence"

    async def test_three_that_are_lost_are_enough(
        self, ask: Ask, store: redis.Redis, settings: Settings, idle: SimulatedEngine
    ) -> None:
        message_id = await detached(ask)
        queue = [name(settings.model) for name in (keys.ready, keys.payloads, keys.leases, keys.attempts, keys.wake)]
        for _ in range(3):
            store.eval(scripts.CLAIM, 5, *queue, 1, -1)
        idle.max_batch = 64
        r = await (await get(ask, message_id)).whole()
        assert kinds(r) == ["message_start", "error"]
        assert r.events[-1]["error"]["type"] == "api_error"
        assert (await settlement_of(store, settings)).outcome == "worker_lost"


class TestTheEngine:
    @pytest.fixture
    def fault(self, worker: Worker, monkeypatch: pytest.MonkeyPatch) -> Callable[[FinishReason], None]:
        """Lets the fifth token of each message be its last, with a fault."""

        def set_up(finish: FinishReason) -> None:
            engine = cast(SimulatedEngine, worker._engine)
            step = engine.step

            def failing() -> list[StepOutput]:
                found = step()
                ended = {output.id for output in found if engine._sequences[output.id].position == 5}
                for name in ended:
                    engine.cancel(name)
                return [replace(output, finish=finish) if output.id in ended else output for output in found]

            monkeypatch.setattr(engine, "step", failing)

        return set_up

    @pytest.mark.parametrize("finish", ["error", "oom"])
    async def test_a_stream_ends_with_an_error(
        self, ask: Ask, store: redis.Redis, settings: Settings, fault: Callable[[str], None], finish: str
    ) -> None:
        fault(finish)
        r = await (await post(ask)).whole()
        assert error_of(r) == "api_error"
        settlement = await settlement_of(store, settings)
        assert (settlement.outcome, settlement.output_tokens) == (finish, released(r, store))

    async def test_a_json_answer_is_a_500(self, ask: Ask, fault: Callable[[str], None]) -> None:
        fault("oom")
        r = await (await ask("POST", "/v1/messages", a_body(max_tokens=MANY))).whole()
        assert (r.status, r.json()["error"]["type"]) == (500, "api_error")


class TestTheGateway:
    """Draining. That it refuses new work and serves old is in `test_messages` and `test_streams`."""

    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        return replace(settings, drain_s=0.4)

    async def test_a_message_that_may_be_taken_up_goes_on(
        self, ask: Ask, gateway: Gateway, store: redis.Redis, settings: Settings
    ) -> None:
        r = await post(ask, max_tokens=60, idempotency_key="k")
        await asyncio.gather(gateway.drain.run(), r.whole())
        assert r.events[-2]["delta"]["stop_reason"] == "server_shutdown"
        settlement = await settlement_of(store, settings)
        assert (settlement.outcome, settlement.output_tokens) == ("max_tokens", 60)
        message = await (await ask("GET", f"/v1/streams/{id_of(r)}/message")).whole()
        assert message.json()["stop_reason"] == "max_tokens"

    async def test_what_a_reader_followed_goes_on(
        self, ask: Ask, gateway: Gateway, store: redis.Redis, settings: Settings
    ) -> None:
        r = await get(ask, await detached(ask, max_tokens=60))
        await r.until(b"content_block_delta")
        await asyncio.gather(gateway.drain.run(), r.whole())
        assert kinds(r)[-1] == "server_shutdown"
        assert (await settlement_of(store, settings)).outcome == "max_tokens"

    async def test_one_whose_farewell_takes_too_long_still_has_an_end(
        self, ask: Ask, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        r = await post(ask, idempotency_key="k")
        asked = asyncio.Event()

        async def usages(*_: Any) -> None:
            asked.set()
            await asyncio.sleep(60)

        monkeypatch.setattr(gateway.log, "usages", usages)
        await asyncio.gather(gateway.drain.run(), asked.wait())
        r.communicator.future.cancel()  # as the server does with what is left
        await r.whole()
        assert error_of(r) == "api_error"

    async def test_an_end_that_is_not_taken_yet_is_the_only_one(
        self, ask: Ask, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        full = asyncio.Event()

        async def write(call: Call, body: bytes) -> None:
            await call.send({"type": "http.response.body", "body": body, "more_body": True})
            if b"message_stop" in body:
                full.set()
                await asyncio.sleep(60)

        monkeypatch.setattr(Call, "write", write)
        r = await post(ask, max_tokens=20, idempotency_key="k")
        await full.wait()
        await asyncio.gather(gateway.drain.run(), r.whole())
        assert kinds(r)[-3:] == ["content_block_stop", "message_delta", "message_stop"]
        assert r.events[-2]["delta"]["stop_reason"] == "max_tokens"

    async def test_a_json_answer_says_when_to_come_again(
        self, ask: Ask, gateway: Gateway, store: redis.Redis, settings: Settings
    ) -> None:
        waiting = asyncio.create_task(ask("POST", "/v1/messages", a_body(max_tokens=MANY)))
        await until(lambda: gateway.readers.count)
        await gateway.drain.run()
        r = await (await waiting).whole()
        assert (r.status, r.headers["connection"]) == (503, "close")
        assert float(r.headers["retry-after"]) > 0
        assert (await settlement_of(store, settings)).outcome == "client_gone"


class TestRedis:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        return replace(settings, heartbeat_s=0.3)

    async def test_one_that_lost_its_tail_is_told_it_again(
        self, ask: Ask, store: redis.Redis, settings: Settings
    ) -> None:
        whole = await (await post(ask, max_tokens=60)).whole()
        r = await post(ask, max_tokens=60)
        await r.until(b"id: 20\n")
        before = snapshot(store)
        await r.until(b"id: 40\n")
        roll_back(store, before)
        await r.whole()
        assert [e for e in r.events[1:] if e["type"] != "ping"] == whole.events[1:]
        replay = await (await get(ask, id_of(r))).whole()
        assert replay.events[1:] == whole.events[1:]
        await until(lambda: not store.exists(keys.payloads(settings.model)))
        told = [Settlement.decode(fields[b"r"]) for _, fields in entries_of(store, keys.settlements(settings.model))]
        assert {(s.id, s.outcome, s.output_tokens, s.attempts) for s in told} == {
            (id_of(whole), "max_tokens", 60, 1), (id_of(r), "max_tokens", 60, 1)
        }  # fmt: skip

    async def test_a_message_that_it_forgot_before_it_began_is_lost(
        self, ask: Ask, store: redis.Redis, settings: Settings, idle: SimulatedEngine
    ) -> None:
        r = await ask("POST", "/v1/messages", a_body(stream=True))
        await r.until(b"message_start")
        roll_back(store, {})
        await r.whole()
        assert kinds(r) == ["message_start", "error"]
        assert r.events[-1]["error"]["type"] == "api_error"
        settlement = await settlement_of(store, settings)
        assert (settlement.id, settlement.outcome, settlement.output_tokens) == (id_of(r), "error", 0)

    async def test_a_json_answer_that_it_forgot_is_a_500(
        self, ask: Ask, store: redis.Redis, gateway: Gateway, idle: SimulatedEngine
    ) -> None:
        waiting = asyncio.create_task(ask("POST", "/v1/messages", a_body()))
        await until(lambda: gateway.readers.count)
        roll_back(store, {})
        r = await (await waiting).whole()
        assert (r.status, r.json()["error"]["type"]) == (500, "api_error")

    async def test_a_log_that_ended_before_what_was_read_is_lost(self, ask: Ask, store: redis.Redis) -> None:
        r = await post(ask)
        await r.until(b"id: 20\n")
        store.hset(keys.meta(id_of(r)), mapping={"ended": 4, "outcome": "cancelled", "last": 4})  # by an heir
        await r.whole()
        assert error_of(r) == "api_error"
