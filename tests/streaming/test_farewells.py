"""All streams of a gateway that stops get their farewell, however many and however long they are."""

from __future__ import annotations

import asyncio
import json
import time

import pytest
import redis

from inference.protocol import keys, scripts
from inference.protocol.events import MessageEvents
from inference.protocol.settings import Settings
from streaming import eventlog
from streaming.eventlog import Usage
from streaming.gateway import Gateway
from tests.inference.tools import entries_of
from tests.streaming.conftest import Ask, Response, a_body

STREAMS, EVENTS = 100, 300


@pytest.fixture
def worker(store: redis.Redis, settings: Settings) -> None:
    """One that is known, and takes nothing: what the logs have, the tests write."""
    about = {"model": settings.model, "context_length": 8192, "started_at": time.time()}
    store.eval(scripts.BEAT, 1, keys.WORKERS, "w", json.dumps(about))


def lengthen(store: redis.Redis, message_id: str, num_deltas: int = EVENTS) -> None:
    """Append deltas, each of a token, as a worker would."""
    log = MessageEvents(last_id=1)
    entries = [(log.start_text(), ""), *((log.text("word "), "7") for _ in range(num_deltas))]
    names = (keys.log(message_id), keys.meta(message_id), keys.owner(message_id))
    store.eval(scripts.TAKE, 1, keys.meta(message_id), 1, 0)
    head = (1, keys.channel(message_id), 2, num_deltas, "", 60)
    store.eval(scripts.APPEND, 3, *names, *head, *(part for entry in entries for part in entry))


async def test_each_is_told_within_the_budget(
    ask: Ask, gateway: Gateway, store: redis.Redis, settings: Settings
) -> None:
    async def posted() -> Response:
        response: Response = await ask("POST", "/v1/messages", a_body(max_tokens=5000, stream=True))
        return response

    streams = [await posted() for _ in range(STREAMS)]
    for stream in streams:
        await stream.more()
        await asyncio.to_thread(lengthen, store, stream.events[0]["message"]["id"])

    async def whole(stream: Response) -> float:
        await stream.whole()
        return time.monotonic()

    begun = time.monotonic()
    draining = asyncio.create_task(gateway.drain.run())
    ends = await asyncio.gather(*(whole(stream) for stream in streams))
    await draining
    assert max(ends) - begun < settings.drain_s
    for stream in streams:
        stop, end, last = stream.events[-3:]
        assert (stop["type"], last["type"]) == ("content_block_stop", "message_stop")
        assert end["delta"]["stop_reason"] == "server_shutdown"
        assert end["usage"] == {"input_tokens": end["usage"]["input_tokens"], "output_tokens": EVENTS}


async def opened(ask: Ask) -> str:
    r = await ask("POST", "/v1/messages", a_body(max_tokens=5000, stream=True), x_sluice_on_disconnect="continue")
    await r.more()
    message_id: str = r.events[0]["message"]["id"]
    return message_id


async def test_without_the_count_the_log_is_read(ask: Ask, gateway: Gateway, store: redis.Redis) -> None:
    message_id = await opened(ask)
    store.hdel(keys.meta(message_id), "tokens")
    lengthen(store, message_id, 20)
    ((input_tokens, output_tokens),) = await gateway.log.usages([(message_id, 12)])
    assert input_tokens > 0
    assert output_tokens == 10


async def test_a_failure_is_told_to_all_that_asked(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    async def usages(_: object) -> list[Usage]:
        raise redis.RedisError("broken")

    monkeypatch.setattr(gateway.log, "usages", usages)
    found = await asyncio.gather(*(gateway.usages.until(f"msg_{i}", 1) for i in range(3)), return_exceptions=True)
    assert [str(error) for error in found] == ["broken"] * 3


async def test_a_long_log_is_read_in_slices(
    ask: Ask, gateway: Gateway, store: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(eventlog, "SLICE", 7)
    message_id = await opened(ask)
    lengthen(store, message_id, 20)
    frames = [fields[b"f"] for _, fields in entries_of(store, keys.log(message_id))]
    assert await gateway.log.whole(message_id) == b"".join(frames)
    progress = await gateway.log.progress(message_id)
    assert (progress.last_id, len(progress.token_ids), progress.open_block) == (22, 20, "text")
    assert (await gateway.log.progress(message_id, until=9)).last_id == 9
    assert json.loads(frames[-1].rpartition(b"data: ")[2])["type"] == "content_block_delta"
