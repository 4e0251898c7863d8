"""Gateways without the web, and web processes without streams."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
import redis
from channels.testing import HttpCommunicator
from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import OperationalError

from accounts.uses import USED, USES
from config import web
from config.management.commands import web as web_command
from config.routing import build
from config.web import Web
from streaming.gateway import Gateway
from tests.environment import ROOT

SHOP = "https://shop.example"


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def error(self) -> dict[str, Any]:
        told = json.loads(self.body)
        assert told["request_id"] == self.headers["request-id"]
        error: dict[str, Any] = told["error"]
        return error


Ask = Callable[..., Awaitable[Answer]]


def asking(application: Any) -> Ask:
    async def ask(method: str, path: str, **headers: str) -> Answer:
        pairs = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
        communicator = HttpCommunicator(application, method, path, headers=[(b"host", b"localhost"), *pairs])
        r = await communicator.get_response(timeout=20)
        await communicator.wait(timeout=20)
        return Answer(r["status"], {name.decode().lower(): value.decode() for name, value in r["headers"]}, r["body"])

    return ask


class TestGateway:
    @pytest.fixture
    async def ask(self, store: redis.Redis) -> AsyncIterator[Ask]:
        gateway = Gateway(replace(settings.SLUICE, cors_origins=SHOP))
        yield asking(build(gateway, web=False))
        await gateway.close()

    async def test_it_works(self, ask: Ask) -> None:
        assert (await ask("GET", "/healthz")).status == 200
        assert (await ask("GET", "/v1/models")).status == 401

    @pytest.mark.parametrize(
        "path", ["/", "/admin/", "/v1/usage", "/static/common/page.css", "/admin/console/streams/live"]
    )
    async def test_the_web_is_not_there(self, ask: Ask, path: str) -> None:
        r = await ask("GET", path)
        assert (r.status, r.error["type"]) == (404, "not_found_error")
        assert r.error["message"] == f"This gateway serves no pages. GET {path} is for a web process: manage.py web."

    async def test_what_nobody_serves_is_not_said_to_be_there(self, ask: Ask) -> None:
        r = await ask("GET", "/v1/streams/msg_1/")
        assert (r.status, r.error["message"]) == (404, "No such path: GET /v1/streams/msg_1/")

    async def test_pages_of_other_origins_can_read_that(self, ask: Ask) -> None:
        r = await ask("OPTIONS", "/v1/usage", origin=SHOP, access_control_request_method="GET")
        assert (r.status, r.headers["access-control-allow-methods"]) == (204, "GET")
        r = await ask("GET", "/v1/usage", origin=SHOP)
        assert (r.status, r.headers["access-control-allow-origin"]) == (404, SHOP)

    def test_nothing_of_the_web_is_loaded(self) -> None:
        looks = (
            "import django; django.setup()\n"
            "from config.management.commands.gateway import Command\n"
            "command = Command()\n"
            "command.check(**command.get_check_kwargs({'no_web': True}))\n"
            "import sys; print('config.urls' in sys.modules, 'config.pages' in sys.modules)\n"
        )
        environment = os.environ | {"DJANGO_SETTINGS_MODULE": "config.settings", "SLUICE_NONSENSE": "1"}
        done = subprocess.run(
            [sys.executable, "-c", looks], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
        )
        assert done.stdout == "False False\n"
        assert "SLUICE_NONSENSE is set" in done.stderr, "what is left is checked"


class TestWeb:
    @pytest.fixture
    def process(self) -> Web:
        return Web(replace(settings.SLUICE, cors_origins=SHOP))

    @pytest.fixture
    def ask(self, process: Web) -> Ask:
        return asking(process.application())

    async def test_it_lives(self, ask: Ask) -> None:
        r = await ask("GET", "/healthz", origin=SHOP)
        assert (r.status, json.loads(r.body)) == (200, {"status": "ok"})
        assert r.headers["request-id"] == r.headers["x-request-id"]
        assert r.headers["access-control-allow-origin"] == SHOP

    async def test_it_tells_nothing_to_a_post(self, ask: Ask) -> None:
        r = await ask("POST", "/readyz")
        assert (r.status, r.headers["allow"], r.error["type"]) == (405, "GET", "invalid_request_error")

    @pytest.mark.django_db(transaction=True)
    async def test_it_is_ready_while_the_database_answers(self, ask: Ask, process: Web) -> None:
        assert (await ask("GET", "/readyz")).status == 200
        await process.drain.run()
        r = await ask("GET", "/readyz")
        assert (r.status, json.loads(r.body)) == (503, {"status": "draining"})
        assert (await ask("GET", "/healthz")).status == 200

    async def test_it_is_not_while_the_database_fails(self, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(web, "_database_answers", lambda: False)
        r = await ask("GET", "/readyz")
        assert (r.status, json.loads(r.body)) == (503, {"status": "the database does not answer"})

    async def test_one_question_waits_for_a_database_that_hangs(
        self, ask: Ask, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        may_end, asked = threading.Event(), 0

        def hang() -> bool:
            nonlocal asked
            asked += 1
            return may_end.wait(20)

        monkeypatch.setattr(web, "PATIENCE_S", 0.05)
        monkeypatch.setattr(web, "_database_answers", hang)
        try:
            assert [(await ask("GET", "/readyz")).status for _ in range(3)] == [503] * 3
            assert asked == 1
        finally:
            may_end.set()

    @pytest.mark.parametrize("path", ["/v1/messages", "/v1/streams", "/v1/models/a/b", "/metrics"])
    async def test_streams_are_not_there(self, ask: Ask, path: str) -> None:
        r = await ask("POST", path)
        assert (r.status, r.error["type"]) == (404, "not_found_error")
        assert r.error["message"] == f"This process serves no streams. POST {path} is for a gateway: manage.py gateway."

    async def test_openais_clients_are_told_in_their_form(self, ask: Ask) -> None:
        r = await ask("POST", "/v1/chat/completions")
        assert (r.status, json.loads(r.body)["error"]["code"]) == (404, "unknown_url")

    async def test_the_rest_is(self, ask: Ask) -> None:
        assert (await ask("GET", "/v1/usage")).status == 401
        r = await ask("GET", "/v1/nothing")
        assert r.error["message"] == "No such path: GET /v1/nothing"

    async def test_it_tells_of_the_keys_that_were_used(self, process: Web, store: redis.Redis) -> None:
        await process.start()
        USES.take()
        USES.note("key_1")
        await process.close(5)
        assert store.zrange(USED, 0, -1) == [b"key_1"]

    def test_it_starts_without_a_database(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], redis_server: str
    ) -> None:
        def away() -> None:
            raise OperationalError

        monkeypatch.setattr(web_command, "bring_database", away)
        with pytest.raises(CommandError, match=r"Cannot listen on 192\.0\.2\.1:1"):
            call_command("web", host="192.0.2.1", port=1)
        assert "the database does not answer" in capsys.readouterr().err
