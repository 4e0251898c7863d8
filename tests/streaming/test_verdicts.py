"""What requests come to, as their clients feel it, and what else is counted of them by the minute."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from dataclasses import replace
from typing import Any, cast

import pytest
import redis

from common.errors import ApiError, InvalidRequest, Overloaded, RateLimited, Timeout
from inference.protocol import keys, scripts
from inference.protocol.events import MessageEvents, frame
from inference.protocol.minutes import (
    ANSWERS,
    GOOD,
    LEFT_OUT,
    OUTCOMES,
    OUTPUT,
    STAGES,
    TBT,
    TOKENS,
    TPOT,
    TTFT,
    read,
    verdict_on,
)
from inference.protocol.outcomes import OUTCOMES as OUTCOMES_THERE_ARE
from inference.protocol.outcomes import Outcome, StopReason
from inference.protocol.settings import Settings
from inference.worker import Worker
from streaming import parting, reader
from streaming.announcements import Subscription
from streaming.gateway import Gateway
from streaming.parting import server_shutdown
from streaming.verdicts import verdict_of, verdict_of_error
from tests.streaming.conftest import Ask, a_body

Sums = dict[tuple[str, str], dict[str, Counter[str]]]


async def counted(gateway: Gateway, store: redis.Redis) -> Sums:
    """All that was counted, by model and organisation; a worker tells each second."""
    await gateway.measures.flush_minutes()
    found: Sums = {}
    for minute in cast(dict[bytes, bytes], store.hgetall(keys.MINUTES_CHANGED)):
        for model, organization, sums in read(cast(dict[bytes, bytes], store.hgetall(keys.minute(int(minute))))):
            group = found.setdefault((model, organization), {})
            for kind, parts in json.loads(sums).items():
                group.setdefault(kind, Counter()).update(parts)
    return found


async def answers(gateway: Gateway, store: redis.Redis) -> dict[str, int]:
    total: Counter[str] = Counter()
    for group in (await counted(gateway, store)).values():
        total.update(group.get(ANSWERS, {}))
    return dict(total)


def an_end(stop_reason: StopReason) -> bytes:
    events = MessageEvents(last_id=7)
    return events.message_delta(stop_reason=stop_reason, usage={"output_tokens": 1}) + events.message_stop()


@pytest.mark.parametrize(
    ("last_sent", "verdict"),
    [
        (an_end("end_turn"), GOOD),
        (an_end("safety"), GOOD),
        (an_end("cancelled"), LEFT_OUT),
        (server_shutdown(b"", input_tokens=1, output_tokens=1), "bad:server_shutdown"),
        (parting.SHUTDOWN, "bad:server_shutdown"),
        (MessageEvents(last_id=7).error(kind="timeout_error", message='"stop_reason":"x"'), "bad:timeout_error"),
        (parting.failure(b"", "event: message_stop"), "bad:api_error"),
        (MessageEvents(last_id=7).start_text(), ""),
        (frame("ping", {}), ""),
        (b"", ""),
    ],
)
def test_a_verdict_is_by_the_last_events(last_sent: bytes, verdict: str) -> None:
    assert verdict_of(last_sent) == verdict


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (ApiError("x"), "bad:api_error"),
        (Timeout("x"), "bad:timeout_error"),
        (Overloaded("x"), "bad:overloaded_error"),
        (RateLimited("x"), LEFT_OUT),
        (InvalidRequest("x"), LEFT_OUT),
    ],
)
def test_a_refusal_is_bad_where_it_is_our_fault(error: ApiError, verdict: str) -> None:
    assert verdict_of_error(error) == verdict


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/chat/completions"])
@pytest.mark.parametrize("stream", [True, False])
async def test_it_works(
    ask: Ask, gateway: Gateway, store: redis.Redis, settings: Settings, path: str, stream: bool
) -> None:
    await (await ask("POST", path, a_body(stream=stream))).whole()
    await ended(gateway, store, settings)
    found = await counted(gateway, store)
    assert list(found) == [(settings.model, "org_1")]
    sums = found[settings.model, "org_1"]
    assert sums[ANSWERS] == {GOOD: 1}
    assert sums[OUTCOMES] == {"max_tokens": 1}
    assert sums[TOKENS] == {OUTPUT: 5}
    assert sums[TTFT].total() == 1
    assert sums[TBT].total() == 4
    assert sums.get(TPOT, Counter()).total() == int(stream)
    assert set(sums[STAGES]) >= {
        "auth",
        "validation",
        "tokenizing",
        "admission",
        "enqueue",
        "queue",
        "prefill",
        "decode",
    }
    assert set(sums[STAGES].values()) == {1}
    assert ("write" in sums[STAGES]) is stream


class TestWithoutRoom:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        return replace(settings, queue_limit=1, sim_prefill_ms=60_000)

    async def test_a_full_queue_is_bad(
        self, ask: Ask, gateway: Gateway, store: redis.Redis, settings: Settings, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def full(*_: Any, **__: Any) -> None:
            raise Overloaded("The queue is full.")

        monkeypatch.setattr(gateway.log, "open", full)
        for path in ("/v1/messages", "/v1/streams"):
            assert (await (await ask("POST", path, a_body())).whole()).status == 529
        found = await counted(gateway, store)
        assert found == {(settings.model, "org_1"): {ANSWERS: {"bad:overloaded_error": 2}}}


async def test_what_a_caller_did_wrong_is_of_no_account(ask: Ask, gateway: Gateway, store: redis.Redis) -> None:
    await (await ask("POST", "/v1/messages", {})).whole()
    await (await ask("POST", "/v1/messages", a_body(), key="bad")).whole()
    await (await ask("POST", "/v1/messages", a_body(model="none"))).whole()
    found = await counted(gateway, store)
    assert found == {("", "org_1"): {ANSWERS: {LEFT_OUT: 2}}, ("", ""): {ANSWERS: {LEFT_OUT: 1}}}


async def test_other_requests_are_not_counted(ask: Ask, gateway: Gateway, store: redis.Redis) -> None:
    for path in ("/v1/models", "/healthz", "/v1/streams/msg_none", "/v1/messages"):
        await (await ask("GET", path)).whole()
    assert await answers(gateway, store) == {}


async def test_a_client_that_goes_is_of_no_account(ask: Ask, gateway: Gateway, store: redis.Redis) -> None:
    r = await ask("POST", "/v1/messages", a_body(max_tokens=5000, stream=True))
    await r.more()
    await r.leave()
    assert await answers(gateway, store) == {LEFT_OUT: 1}


async def test_a_message_that_is_cancelled_is_of_no_account(ask: Ask, gateway: Gateway, store: redis.Redis) -> None:
    r = await ask("POST", "/v1/messages", a_body(max_tokens=5000, stream=True))
    await r.more()
    message_id = r.events[0]["message"]["id"]
    await (await ask("DELETE", f"/v1/streams/{message_id}")).whole()
    await r.whole()
    assert await answers(gateway, store) == {LEFT_OUT: 1}


async def test_an_error_in_the_stream_is_bad(
    ask: Ask, gateway: Gateway, store: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    r = await ask("POST", "/v1/messages", a_body(max_tokens=5000, stream=True))
    await r.more()

    async def lost(*_: Any, **__: Any) -> None:
        raise redis.RedisError("broken")

    for reading in gateway.readers._all:
        monkeypatch.setattr(reading.reader, "next", lost)
    await r.whole()
    assert r.events[-1]["type"] == "error"
    assert await answers(gateway, store) == {"bad:api_error": 1}


@pytest.mark.parametrize("stream", [True, False])
async def test_a_server_that_stops_is_bad(ask: Ask, gateway: Gateway, store: redis.Redis, stream: bool) -> None:
    asking = asyncio.create_task(ask("POST", "/v1/messages", a_body(max_tokens=5000, stream=stream)))
    async with asyncio.timeout(5):
        while not gateway.readers.count:
            await asyncio.sleep(0.01)
    draining = asyncio.create_task(gateway.drain.run())
    r = await asking
    await r.whole()
    await draining
    assert r.status == (200 if stream else 503)
    assert await answers(gateway, store) == {"bad:server_shutdown" if stream else "bad:api_error": 1}


async def ended(gateway: Gateway, store: redis.Redis, settings: Settings) -> dict[str, Counter[str]]:
    """What was counted of the tenant, once a message of its has been settled."""
    async with asyncio.timeout(5):
        while OUTCOMES not in (sums := (await counted(gateway, store)).get((settings.model, "org_1"), {})):
            await asyncio.sleep(0.01)
    return sums


@pytest.mark.parametrize("how", ["not at all", "asked for", "read", "read again"])
async def test_a_detached_message_is_judged_once_however_it_is_read(
    ask: Ask, gateway: Gateway, store: redis.Redis, settings: Settings, how: str
) -> None:
    r = await (await ask("POST", "/v1/streams", a_body())).whole()
    path = f"/v1/streams/{r.json()['id']}"
    if how == "asked for":
        await (await ask("GET", f"{path}/message")).whole()
    elif how != "not at all":
        for last_event_id in ("0", "2", "0") if how == "read again" else ("0",):
            await (await ask("GET", path, last_event_id=last_event_id)).whole()
    sums = await ended(gateway, store, settings)
    assert sums[ANSWERS] == {GOOD: 1}
    assert sums[OUTCOMES] == {"max_tokens": 1}


async def test_a_detached_message_that_is_cancelled_is_of_no_account(
    ask: Ask, gateway: Gateway, store: redis.Redis, settings: Settings
) -> None:
    r = await (await ask("POST", "/v1/streams", a_body(max_tokens=5000))).whole()
    await (await ask("DELETE", f"/v1/streams/{r.json()['id']}")).whole()
    assert (await ended(gateway, store, settings))[ANSWERS] == {LEFT_OUT: 1}


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/streams"])
async def test_an_idempotency_key_that_comes_again_is_not_judged_again(
    ask: Ask, gateway: Gateway, store: redis.Redis, settings: Settings, path: str
) -> None:
    for _ in range(2):
        await (await ask("POST", path, a_body(), idempotency_key="k")).whole()
    assert (await ended(gateway, store, settings))[ANSWERS] == {GOOD: 1}


@pytest.mark.parametrize("outcome", OUTCOMES_THERE_ARE)
def test_an_outcome_has_a_verdict(outcome: Outcome) -> None:
    kind = {"timeout": "timeout_error", "error": "api_error", "oom": "api_error", "worker_lost": "api_error"}
    left_out = outcome in ("cancelled", "client_gone", "abandoned")
    expected = LEFT_OUT if left_out else f"bad:{kind[outcome]}" if outcome in kind else GOOD
    assert verdict_on(outcome) == expected


@pytest.mark.parametrize("stream", [True, False])
async def test_an_end_that_was_read_in_two_slices(
    ask: Ask, gateway: Gateway, store: redis.Redis, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    async def hear_nothing(self: Subscription, timeout: float) -> None:
        await asyncio.sleep(0.01)
        self.missed = True

    monkeypatch.setattr(reader, "SLICE", 1)
    monkeypatch.setattr(Subscription, "get", hear_nothing)
    asking = asyncio.create_task(ask("POST", "/v1/messages", a_body(max_tokens=5000, stream=stream)))
    async with asyncio.timeout(5):
        while not gateway.readers.count:
            await asyncio.sleep(0.01)
    (message_id,) = (reading.message_id for reading in gateway.readers._all)
    await (await ask("DELETE", f"/v1/streams/{message_id}")).whole()
    await (await asking).whole()
    assert await answers(gateway, store) == {LEFT_OUT: 1}


async def test_who_comes_back_was_counted_before(ask: Ask, gateway: Gateway, store: redis.Redis) -> None:
    r = await (await ask("POST", "/v1/messages", a_body(stream=True))).whole()
    await (await ask("GET", f"/v1/streams/{r.events[0]['message']['id']}", last_event_id="2")).whole()
    assert await answers(gateway, store) == {GOOD: 1}


class TestWithoutAWorker:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        return replace(settings, queue_timeout_s=0.0, sim_prefill_ms=60_000)

    @pytest.fixture(autouse=True)
    async def only_a_heartbeat(self, store: redis.Redis, worker: Worker, settings: Settings) -> None:
        worker.stop()
        while store.hexists(keys.WORKERS, worker.id):
            await asyncio.sleep(0.01)
        about = {"model": settings.model, "context_length": 8192, "started_at": time.time()}
        store.eval(scripts.BEAT, 1, keys.WORKERS, "w", json.dumps(about))

    async def test_what_the_reaper_ends_counts(
        self, ask: Ask, gateway: Gateway, store: redis.Redis, settings: Settings
    ) -> None:
        r = await (await ask("POST", "/v1/messages", a_body(stream=True))).whole()
        assert r.events[-1]["error"]["type"] == "timeout_error"
        sums = await ended(gateway, store, settings)
        assert sums[ANSWERS] == {"bad:timeout_error": 1}
        assert sums[OUTCOMES] == {"timeout": 1}

    async def test_what_it_ends_that_nobody_waits_for_counts(
        self, ask: Ask, gateway: Gateway, store: redis.Redis, settings: Settings
    ) -> None:
        await (await ask("POST", "/v1/streams", a_body())).whole()
        sums = await ended(gateway, store, settings)
        assert sums[ANSWERS] == {"bad:timeout_error": 1}
        assert sums[OUTCOMES] == {"timeout": 1}
