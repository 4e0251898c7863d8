"""Pages of other origins."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from channels.testing import HttpCommunicator

from inference.protocol.settings import Settings
from streaming.asgi import Receive, Scope, Send, send_json
from streaming.cors import Cors
from streaming.gateway import Gateway
from tests.streaming.conftest import Ask, a_body

SHOP = "https://shop.example"


def scope_of(**headers: str) -> dict[str, Any]:
    return {"headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]}


def test_it_works() -> None:
    headers = dict(Cors(f"{SHOP}/, https://other.example").headers(scope_of(origin=SHOP)))
    assert headers[b"access-control-allow-origin"] == SHOP.encode()
    assert headers[b"vary"] == b"origin"


@pytest.mark.parametrize("origin", ["", "https://evil.example", "https://shop.example.evil.example", "null"])
def test_others_are_told_nothing(origin: str) -> None:
    assert b"access-control-allow-origin" not in dict(Cors(SHOP).headers(scope_of(origin=origin)))


def test_none_are_allowed_by_default() -> None:
    assert Cors("").headers(scope_of(origin=SHOP)) == []


class TestPreflight:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        return replace(settings, cors_origins=SHOP)

    async def test_a_browser_may_ask(self, ask: Ask) -> None:
        r = await (await ask("OPTIONS", "/v1/streams", origin=SHOP, access_control_request_method="POST")).whole()
        assert r.status == 204
        assert r.headers["access-control-allow-origin"] == SHOP
        assert r.headers["access-control-allow-methods"] == "POST"
        assert "x-api-key" in r.headers["access-control-allow-headers"]

    async def test_another_origin_may_not(self, ask: Ask) -> None:
        r = await (
            await ask("OPTIONS", "/v1/streams", origin="https://evil.example", access_control_request_method="POST")
        ).whole()
        assert r.status == 405
        assert "access-control-allow-origin" not in r.headers

    async def test_errors_and_streams_are_readable_too(self, ask: Ask) -> None:
        for body in (a_body(stream=True), {"model": "default"}):
            r = await (await ask("POST", "/v1/messages", body, origin=SHOP)).whole()
            assert r.headers["access-control-allow-origin"] == SHOP

    @pytest.mark.parametrize(
        ("method", "path", "status"),
        [("GET", "/v1/models/other", 404), ("PUT", "/v1/messages", 405), ("POST", "/v1/chat/completions", 503)],
    )
    async def test_every_refusal_is_readable(
        self, ask: Ask, gateway: Gateway, method: str, path: str, status: int
    ) -> None:
        gateway.drain.begun = status == 503
        r = await (await ask(method, path, origin=SHOP)).whole()
        assert (r.status, r.headers["access-control-allow-origin"]) == (status, SHOP)
        assert r.headers["request-id"] == r.headers["x-request-id"]


class TestAround:
    """An application that knows nothing of other origins."""

    @pytest.fixture
    def ask(self) -> Ask:
        async def application(scope: Scope, receive: Receive, send: Send) -> None:
            await send_json(send, {}, status=404, headers=[(b"vary", b"cookie")])

        around = Cors(SHOP).around(application)

        async def send(method: str, path: str, **headers: str) -> dict[str, Any]:
            r = await HttpCommunicator(around, method, path, headers=scope_of(**headers)["headers"]).get_response()
            headers = {name.decode(): value.decode() for name, value in r["headers"]}
            return {"status": r["status"], "headers": headers}

        return send

    async def test_its_errors_are_readable(self, ask: Ask) -> None:
        r = await ask("GET", "/v1/nothing", origin=SHOP)
        assert (r["status"], r["headers"]["access-control-allow-origin"]) == (404, SHOP)

    async def test_a_browser_may_ask(self, ask: Ask) -> None:
        r = await ask("OPTIONS", "/v1/nothing", origin=SHOP, access_control_request_method="POST")
        assert (r["status"], r["headers"]["access-control-allow-methods"]) == (204, "POST")
        assert r["headers"]["request-id"].startswith("req_")

    @pytest.mark.parametrize(("path", "origin"), [("/admin/", SHOP), ("/v1/nothing", "https://evil.example")])
    async def test_others_are_told_nothing(self, ask: Ask, path: str, origin: str) -> None:
        for method in ("GET", "OPTIONS"):
            r = await ask(method, path, origin=origin, access_control_request_method="POST")
            assert r["status"] == 404
            assert "access-control-allow-origin" not in r["headers"]
