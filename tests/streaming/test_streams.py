"""/v1/streams: detached messages, resume, cancel, the finished message."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest
import redis

from accounts.callers import Caller
from inference.protocol import keys
from inference.protocol.settings import Settings
from streaming.gateway import Gateway
from tests.streaming.conftest import Ask, KnownCaller, Response, a_body, settlement_of


def numbered(r: Response) -> list[tuple[str, dict[str, Any]]]:
    """The events that have an id."""
    found = []
    for frame in r.body.decode().split("\n\n"):
        lines = dict(line.split(": ", 1) for line in frame.split("\n") if ": " in line and not line.startswith(":"))
        if "id" in lines:
            found.append((lines["id"], json.loads(lines["data"])))
    return found


async def posted(ask: Ask, **more: Any) -> Response:
    r: Response = await (await ask("POST", "/v1/messages", a_body(stream=True, **more))).whole()
    return r


def id_of(r: Response) -> str:
    return str(r.events[0]["message"]["id"])


async def detached(ask: Ask, **more: Any) -> dict[str, Any]:
    r = await (await ask("POST", "/v1/streams", a_body(**more))).whole()
    assert r.status == 202
    body: dict[str, Any] = r.json()
    return body


async def test_it_works(ask: Ask) -> None:
    made = await detached(ask)
    r = await (await ask("GET", f"/v1/streams/{made['id']}")).whole()
    assert [e["type"] for e in r.events][-1] == "message_stop"
    assert [position for position, _ in numbered(r)] == [str(i) for i in range(1, len(numbered(r)) + 1)]


async def test_any_position_gives_the_exact_rest(ask: Ask) -> None:
    whole = await posted(ask)
    events = numbered(whole)
    for position in (1, 2, 5, len(events) - 1):
        rest = await (await ask("GET", f"/v1/streams/{id_of(whole)}", last_event_id=str(position))).whole()
        assert numbered(rest) == events[position:]


async def test_the_header_beats_the_query(ask: Ask) -> None:
    whole = await posted(ask)
    path = f"/v1/streams/{id_of(whole)}?last_event_id=2"
    assert numbered(await (await ask("GET", path)).whole()) == numbered(whole)[2:]
    assert numbered(await (await ask("GET", path, last_event_id="4")).whole()) == numbered(whole)[4:]


@pytest.mark.parametrize("given", ["rubbish", "-1", "0", "", "1.5", "٣", "9" * 40])
async def test_what_is_no_id_replays_all(ask: Ask, given: str) -> None:
    whole = await posted(ask)
    path = f"/v1/streams/{id_of(whole)}?last_event_id={given.encode().hex() if not given.isascii() else given}"
    assert numbered(await (await ask("GET", path)).whole()) == numbered(whole)


@pytest.mark.parametrize("beyond", [0, 1, 100])
async def test_at_or_past_the_end_there_is_no_more(ask: Ask, beyond: int) -> None:
    whole = await posted(ask)
    last = str(len(numbered(whole)) + beyond)
    r = await (await ask("GET", f"/v1/streams/{id_of(whole)}", last_event_id=last)).whole()
    assert (r.status, r.body) == (204, b"")


async def test_past_the_end_of_a_running_log_all_is_replayed(ask: Ask) -> None:
    made = await detached(ask, max_tokens=40)
    r = await (await ask("GET", f"/v1/streams/{made['id']}", last_event_id="9999")).whole()
    assert r.events[0]["type"] == "message_start"
    assert r.events[-1]["type"] == "message_stop"


async def test_readers_that_come_when_they_like_see_the_same(ask: Ask) -> None:
    made = await detached(ask, max_tokens=40)
    path = f"/v1/streams/{made['id']}"
    first, second = await ask("GET", path), await ask("GET", path)
    await first.until(b"id: 10\n")
    late = await ask("GET", path, last_event_id="7")
    for reader in (first, second, late):
        await reader.whole()
    assert numbered(first) == numbered(second)
    assert numbered(late) == numbered(first)[7:]


class TestOwners:
    async def test_another_organisation_finds_nothing(self, ask: Ask, gateway: Gateway) -> None:
        made = await detached(ask)
        self.outsider_of(gateway)
        for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/message")):
            r = await (await ask(method, f"/v1/streams/{made['id']}{path}")).whole()
            assert (r.status, r.json()["error"]["type"]) == (404, "not_found_error")

    def outsider_of(self, gateway: Gateway) -> None:
        class Outsider(KnownCaller):
            async def authenticate(self, scope: Any, *, needs: str) -> Caller:
                return Caller("key_2", "org_2", frozenset({"inference"}))

        gateway.authenticator = Outsider()  # type: ignore[assignment]  # no database in these tests

    async def test_an_unknown_message_is_not_found(self, ask: Ask) -> None:
        assert (await (await ask("GET", "/v1/streams/msg_nothing")).whole()).status == 404

    async def test_an_expired_log_says_so_to_its_owner_alone(
        self, ask: Ask, gateway: Gateway, store: redis.Redis
    ) -> None:
        message_id = id_of(await posted(ask))
        store.delete(keys.log(message_id), keys.meta(message_id))
        for path in ("", "/message"):
            assert (await (await ask("GET", f"/v1/streams/{message_id}{path}")).whole()).status == 410
        self.outsider_of(gateway)
        assert (await (await ask("GET", f"/v1/streams/{message_id}")).whole()).status == 404


class TestTokens:
    async def test_the_url_needs_no_key(self, ask: Ask) -> None:
        made = await detached(ask)
        r = await (await ask("GET", made["stream_url"], key="")).whole()
        assert r.status == 200
        assert r.events[-1]["type"] == "message_stop"

    async def test_it_opens_no_other_stream(self, ask: Ask) -> None:
        one, two = await detached(ask), await detached(ask)
        url = one["stream_url"].replace(one["id"], two["id"])
        assert (await (await ask("GET", url, key="")).whole()).status == 401

    async def test_it_dies_with_its_key(self, ask: Ask, gateway: Gateway) -> None:
        made = await detached(ask)
        gateway.authenticator.revoked = True  # type: ignore[attr-defined]
        assert (await (await ask("GET", made["stream_url"], key="")).whole()).status == 401

    @pytest.mark.parametrize("token", ["", "x", "1.2.3", "9999999999.key_1.AAAA", ".", "٣.key_1.x"])
    async def test_it_refuses_any_other(self, ask: Ask, token: str) -> None:
        made = await detached(ask)
        path = made["stream_url"].partition("?")[0]
        quoted = "".join(c if c.isascii() else "%D9%A3" for c in token)
        assert (await (await ask("GET", f"{path}?token={quoted}", key="")).whole()).status == 401


class TestCancel:
    async def test_it_ends_the_stream_and_may_come_twice(
        self, ask: Ask, store: redis.Redis, settings: Settings
    ) -> None:
        made = await detached(ask, max_tokens=5000)
        r = await ask("GET", f"/v1/streams/{made['id']}")
        await r.until(b"content_block_delta")
        for _ in range(2):
            deleted = await (await ask("DELETE", f"/v1/streams/{made['id']}")).whole()
            assert (deleted.status, deleted.json()) == (200, {"id": made["id"], "status": "cancelled"})
        await r.whole()
        assert r.events[-2]["delta"]["stop_reason"] == "cancelled"
        assert (await settlement_of(store, settings)).outcome == "cancelled"

    async def test_a_finished_message_stays_as_it_is(self, ask: Ask) -> None:
        whole = await posted(ask)
        deleted = await (await ask("DELETE", f"/v1/streams/{id_of(whole)}")).whole()
        assert (deleted.status, deleted.json()) == (
            200, {"id": id_of(whole), "status": "ended", "outcome": "max_tokens"},
        )  # fmt: skip
        again = await (await ask("GET", f"/v1/streams/{id_of(whole)}")).whole()
        assert numbered(again) == numbered(whole)


class TestMessage:
    async def test_it_is_there_once_it_is_done(self, ask: Ask) -> None:
        made = await detached(ask, max_tokens=20)
        running = await (await ask("GET", made["message_url"])).whole()
        assert (running.status, running.json()["status"]) == (202, "running")
        stream = await (await ask("GET", f"/v1/streams/{made['id']}")).whole()
        done = await (await ask("GET", made["message_url"])).whole()
        text = "".join(e["delta"]["text"] for e in stream.events if e["type"] == "content_block_delta")
        assert done.json()["content"] == [{"type": "text", "text": text}]


class TestAbandoned:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        return replace(settings, resume_window_s=1.0)

    async def test_a_stream_whose_last_reader_went_ends_after_the_window(
        self, ask: Ask, store: redis.Redis, settings: Settings
    ) -> None:
        made = await detached(ask, max_tokens=5000)
        r = await ask("GET", f"/v1/streams/{made['id']}")
        await r.until(b"content_block_delta")
        await r.leave()
        assert (await settlement_of(store, settings)).outcome == "abandoned"

    async def test_one_that_nobody_ever_read_runs_to_its_end(
        self, ask: Ask, store: redis.Redis, settings: Settings
    ) -> None:
        await detached(ask, max_tokens=100)
        assert (await settlement_of(store, settings)).outcome == "max_tokens"

    async def test_another_reader_keeps_it_alive(self, ask: Ask, store: redis.Redis, settings: Settings) -> None:
        poster = await ask("POST", "/v1/messages", a_body(max_tokens=150, stream=True))
        await poster.until(b"content_block_delta")
        reader = await ask("GET", f"/v1/streams/{id_of(poster)}")
        await reader.until(b"content_block_delta")
        await poster.leave()
        await reader.whole()
        assert (await settlement_of(store, settings)).outcome == "max_tokens"


class TestDrain:
    async def test_a_reader_is_served_and_then_told(self, ask: Ask, gateway: Gateway) -> None:
        made = await detached(ask, max_tokens=5000)
        gateway.drain.begun = True
        r = await ask("GET", f"/v1/streams/{made['id']}")
        await r.until(b"content_block_delta")
        await asyncio.gather(gateway.drain.run(), r.whole())
        assert r.body.endswith(b'event: server_shutdown\ndata: {"type":"server_shutdown"}\n\n')
        assert (await (await ask("POST", "/v1/streams", a_body())).whole()).status == 503
        assert (await (await ask("DELETE", f"/v1/streams/{made['id']}")).whole()).status == 200
