"""httpx-sse on a detached stream: reading, resuming by `Last-Event-ID`, and the 204 after the end."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from httpx_sse import ServerSentEvent, SSEError, aconnect_sse

from tests.e2e.conftest import Product, a_body

pytestmark = pytest.mark.clients


@pytest.fixture
async def client(product: Product, key: str) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=product.url, headers={"x-api-key": key}, timeout=30) as client:
        yield client


async def a_stream(client: httpx.AsyncClient) -> dict[str, Any]:
    r = await client.post("/v1/streams", json=a_body(max_tokens=100))
    assert r.status_code == 202
    stream: dict[str, Any] = r.json()
    return stream


async def read(
    client: httpx.AsyncClient, url: str, last_event_id: str = "", most: int = 1_000_000
) -> list[ServerSentEvent]:
    """Read up to so many events, pings aside, then hang up."""
    events: list[ServerSentEvent] = []
    headers = {"last-event-id": last_event_id} if last_event_id else {}
    async with aconnect_sse(client, "GET", url, headers=headers) as source:
        async for sse in source.aiter_sse():
            assert json.loads(sse.data)["type"] == sse.event
            events += [sse] if sse.event != "ping" else []
            if len(events) == most:
                break
    return events


async def test_it_reads_a_stream(client: httpx.AsyncClient) -> None:
    stream = await a_stream(client)
    events = await read(client, f"/v1/streams/{stream['id']}")
    assert [event.id for event in events] == [str(i) for i in range(1, len(events) + 1)]
    assert events[0].retry
    assert events[0].retry >= 2000
    assert (events[0].event, events[-1].event) == ("message_start", "message_stop")


async def test_it_resumes_without_gap_or_repeat(client: httpx.AsyncClient) -> None:
    stream = await a_stream(client)
    path = f"/v1/streams/{stream['id']}"
    events = await read(client, path, most=10)
    events += await read(client, path, events[-1].id, most=25)
    events += await read(client, path, events[-1].id)
    assert [event.id for event in events] == [str(i) for i in range(1, len(events) + 1)]
    assert [(e.id, e.data) for e in await read(client, path)] == [(e.id, e.data) for e in events]
    text = "".join(json.loads(e.data)["delta"]["text"] for e in events if e.event == "content_block_delta")
    message = (await client.get(stream["message_url"])).json()
    assert message["content"][0]["text"] == text


async def test_the_signed_url_needs_no_key(client: httpx.AsyncClient, product: Product) -> None:
    stream = await a_stream(client)
    async with httpx.AsyncClient(base_url=product.url, timeout=30) as stranger:
        events = await read(stranger, stream["stream_url"])
        assert events[-1].event == "message_stop"
        assert (await stranger.get(f"/v1/streams/{stream['id']}")).status_code == 401


async def test_past_the_end_there_is_204(client: httpx.AsyncClient) -> None:
    stream = await a_stream(client)
    path = f"/v1/streams/{stream['id']}"
    last = (await read(client, path))[-1]
    with pytest.raises(SSEError, match="text/event-stream"):
        await read(client, path, last.id)
    assert (await client.get(path, headers={"last-event-id": last.id})).status_code == 204
