"""What a message's record is told of its readers."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
import redis

from inference.protocol import keys
from inference.protocol.reports import Delivery
from inference.protocol.settings import Settings
from tests.inference.tools import entries_of
from tests.streaming.conftest import Ask, Response, a_body


async def deliveries(store: redis.Redis, count: int) -> list[Delivery]:
    """The reports, once there are so many, in the order in which they came."""
    async with asyncio.timeout(5):
        while len(entries := entries_of(store, keys.DELIVERIES)) < count:
            await asyncio.sleep(0.01)
    return [Delivery.decode(fields[b"r"]) for _, fields in entries]


async def detached(ask: Ask, **more: Any) -> str:
    r = await (await ask("POST", "/v1/streams", a_body(**more))).whole()
    return str(r.json()["id"])


async def read(ask: Ask, message_id: str, **headers: str) -> Response:
    r: Response = await (await ask("GET", f"/v1/streams/{message_id}", **headers)).whole()
    return r


class TestDetached:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        return replace(settings, sim_prefill_ms=300)

    async def test_a_reader_in_time_feels_it_from_the_post_on(self, ask: Ask, store: redis.Redis) -> None:
        message_id = await detached(ask, max_tokens=10)
        await asyncio.sleep(0.1)
        r = await read(ask, message_id)
        (told,) = await deliveries(store, 1)
        assert (told.id, told.organization, told.key) == (message_id, "org_1", "key_1")
        assert told.input_tokens == r.events[0]["message"]["usage"]["input_tokens"]
        assert told.late_ms >= 90
        assert told.ttft_ms is not None
        assert told.stream_ms is not None
        assert 300 <= told.ttft_ms < told.total_ms
        assert told.ttft_ms + told.stream_ms <= told.total_ms
        assert told.tbt_p99_ms is not None
        assert told.bytes_sent == len(r.body)
        assert (told.streamed, told.resumed) == (True, False)

    async def test_one_that_left_has_not_felt_it_all(self, ask: Ask, store: redis.Redis) -> None:
        message_id = await detached(ask, max_tokens=5000)
        r = await ask("GET", f"/v1/streams/{message_id}")
        await r.until(b"content_block_delta")
        await r.leave()
        (told,) = await deliveries(store, 1)
        assert told.ttft_ms is not None
        assert told.stream_ms is None


@pytest.mark.parametrize("straight_ms", [10_000.0, 0.0])
async def test_one_that_finds_content_has_not_felt_its_pace(
    ask: Ask, store: redis.Redis, monkeypatch: pytest.MonkeyPatch, straight_ms: float
) -> None:
    monkeypatch.setattr("streaming.attendance.STRAIGHT_MS", straight_ms)
    message_id = await detached(ask)
    await read(ask, message_id)
    await read(ask, message_id)
    _, late = await deliveries(store, 2)
    assert (late.stream_ms, late.tbt_p99_ms, late.resumed) == (None, None, False)
    assert late.total_ms > late.late_ms > 0
    if straight_ms:
        assert late.ttft_ms is not None
        assert late.late_ms < late.ttft_ms < late.total_ms
    else:
        assert late.ttft_ms is None


async def test_one_that_goes_on_where_another_was_has_resumed(ask: Ask, store: redis.Redis) -> None:
    message_id = await detached(ask, max_tokens=20)
    first, rest = await read(ask, message_id), await read(ask, message_id, last_event_id="5")
    one, two = await deliveries(store, 2)
    assert (one.resumed, two.resumed) == (False, True)
    assert (one.bytes_sent, two.bytes_sent) == (len(first.body), len(rest.body))
    assert one.reader != two.reader


async def test_one_that_finds_no_more_is_none(ask: Ask, store: redis.Redis) -> None:
    message_id = await detached(ask)
    await read(ask, message_id)
    assert (await read(ask, message_id, last_event_id="999")).status == 204
    await read(ask, message_id)
    assert len(await deliveries(store, 2)) == 2


async def test_a_post_that_is_taken_up_again_has_resumed(ask: Ask, store: redis.Redis) -> None:
    body = a_body(max_tokens=60, stream=True)
    lost = await ask("POST", "/v1/messages", body, idempotency_key="k")
    await lost.until(b"content_block_delta")
    await lost.leave()
    await (await ask("POST", "/v1/messages", body, idempotency_key="k")).whole()
    first, again = await deliveries(store, 2)
    assert first.id == again.id
    assert (first.created_at, first.input_tokens) == (again.created_at, again.input_tokens)
    assert (first.late_ms, first.resumed, again.resumed) == (0.0, False, True)
    assert again.late_ms > 0
