"""Messages in the making, and what is told of their end, for tests of who ends them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import redis

from inference.protocol import keys
from tests.inference.tools import entries_of
from tests.streaming.conftest import Ask, Response, a_body

MANY = 5000


async def post(ask: Ask, **more: Any) -> Response:
    """Post a message that is streamed, and read its first words."""
    headers = {name: more.pop(name) for name in ("idempotency_key", "x_sluice_on_disconnect") if name in more}
    r: Response = await ask("POST", "/v1/messages", a_body(**{"max_tokens": MANY, "stream": True} | more), **headers)
    await r.until(b"content_block_delta")
    return r


async def detached(ask: Ask, **more: Any) -> str:
    r = await (await ask("POST", "/v1/streams", a_body(**more))).whole()
    return str(r.json()["id"])


async def get(ask: Ask, message_id: str, **headers: str) -> Response:
    r: Response = await ask("GET", f"/v1/streams/{message_id}", **headers)
    return r


def id_of(r: Response) -> str:
    return str(r.events[0]["message"]["id"])


def kinds(r: Response) -> list[str]:
    """The types of a response's events, runs of deltas as one, without pings."""
    found: list[str] = []
    for event in r.events:
        if event["type"] != "ping" and found[-1:] != [event["type"]]:
            found.append(event["type"])
    return found


def error_of(r: Response) -> str:
    """The error that ends a stream, after its open block was closed."""
    assert kinds(r)[-3:] == ["content_block_delta", "content_block_stop", "error"]
    return str(r.events[-1]["error"]["type"])


def released(r: Response, store: redis.Redis) -> int:
    """The tokens that a message's log has released."""
    entries = entries_of(store, keys.log(id_of(r)))
    return sum(len(fields[b"t"].split(b",")) for _, fields in entries if fields.get(b"t"))


async def until(check: Callable[[], Any]) -> None:
    async with asyncio.timeout(10):
        while not check():
            await asyncio.sleep(0.01)
