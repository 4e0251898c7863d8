"""Query parameters and headers: known or refused."""

from __future__ import annotations

from typing import Any

import pytest

from common.errors import InvalidRequest
from streaming.parameters import query_of
from tests.streaming.conftest import Ask, a_body


def scope_of(query: str) -> dict[str, Any]:
    return {"query_string": query.encode()}


def test_it_works() -> None:
    assert query_of(scope_of("limit=5&after_id=a%20b&empty="), {"limit", "after_id", "empty"}) == {
        "limit": "5", "after_id": "a b", "empty": "",
    }  # fmt: skip
    assert query_of(scope_of(""), ()) == {}


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("colour=red", "colour: no such query parameter; expected a or b."),
        ("colour", "colour: no such query parameter"),
        ("a=1&a=1", "a: expected once"),
        ("b=0&a=1&a=2", "a: expected once"),
    ],
)
def test_it_refuses_by_name(query: str, said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        query_of(scope_of(query), {"a", "b"})


@pytest.mark.parametrize(
    ("method", "path", "known"),
    [
        ("POST", "/v1/messages", "beta"),
        ("POST", "/v1/messages/count_tokens", "beta"),
        ("POST", "/v1/chat/completions", "none"),
        ("POST", "/v1/streams", "none"),
        ("GET", "/v1/streams/msg_1", "last_event_id or token"),
        ("DELETE", "/v1/streams/msg_1", "last_event_id or token"),
        ("GET", "/v1/streams/msg_1/message", "none"),
        ("GET", "/v1/models", "after_id or before_id or beta or limit"),
        ("GET", "/v1/models/default", "beta"),
    ],
)
async def test_every_path_knows_its_own(ask: Ask, method: str, path: str, known: str) -> None:
    r = await (await ask(method, f"{path}?utm_source=x")).whole()
    assert r.status == 400
    assert r.json()["error"]["message"] == f"utm_source: no such query parameter; expected {known}."


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
async def test_probes_may_add_what_they_like(ask: Ask, path: str) -> None:
    assert (await (await ask("GET", f"{path}?at=1")).whole()).status == 200


async def test_what_anthropics_client_adds_is_taken(ask: Ask) -> None:
    assert (await (await ask("POST", "/v1/messages?beta=true", a_body())).whole()).status == 200
    assert (await (await ask("GET", "/v1/models?beta=true&limit=1")).whole()).status == 200


class TestHeaders:
    @pytest.mark.parametrize(
        ("path", "headers", "status", "said"),
        [
            ("/v1/messages", {"x_sluice_on_disconect": "continue"}, 400, "x-sluice-on-disconect: no such header"),
            ("/v1/streams", {"x_sluice_on_disconnect": "cancel"}, 400, "x-sluice-on-disconnect: no such header here"),
            ("/v1/messages", {"content_encoding": "gzip"}, 415, "content-encoding: expected none, not gzip"),
            ("/v1/messages", {"last_event_id": "7"}, 400, "last-event-id: a POST begins a message"),
            ("/v1/chat/completions", {"last_event_id": "7"}, 400, "last-event-id: a POST begins a message"),
        ],
    )
    async def test_it_refuses_by_name(
        self, ask: Ask, path: str, headers: dict[str, str], status: int, said: str
    ) -> None:
        r = await (await ask("POST", path, a_body(), **headers)).whole()
        assert r.status == status
        assert r.json()["error"]["message"].startswith(said)

    @pytest.mark.parametrize(
        "headers",
        [
            {"anthropic_version": "2023-06-01", "anthropic_beta": "x", "x_stainless_lang": "python"},
            {"content_encoding": "identity"},
            {"last_event_id": "7", "idempotency_key": "k"},
        ],
    )
    async def test_hints_are_taken(self, ask: Ask, headers: dict[str, str]) -> None:
        assert (await (await ask("POST", "/v1/messages", a_body(), **headers)).whole()).status == 200
