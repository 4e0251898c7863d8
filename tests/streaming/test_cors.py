"""Pages of other origins."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from inference.protocol.settings import Settings
from streaming.cors import Cors
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
