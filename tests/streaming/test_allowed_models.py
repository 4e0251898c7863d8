"""Keys that may not use every model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from accounts.callers import Caller
from inference.protocol.settings import Settings
from streaming.gateway import Gateway
from tests.streaming.conftest import CALLER, Ask, a_body


class Restricted:
    """Lets one caller in, who may use some models."""

    def __init__(self, *models: str) -> None:
        self._caller = replace(CALLER, allowed_models=frozenset(models))

    async def authenticate(self, scope: Any, *, needs: str) -> Caller:
        return self._caller


def restrict(gateway: Gateway, *models: str) -> None:
    gateway.authenticator = Restricted(*models)  # type: ignore[assignment]  # no database in these tests


async def test_it_works(ask: Ask, gateway: Gateway, settings: Settings) -> None:
    restrict(gateway, settings.model, "other")
    for name in ("default", settings.model):
        assert (await (await ask("POST", "/v1/messages", a_body(model=name))).whole()).status == 200
    assert len((await (await ask("GET", "/v1/models")).whole()).json()["data"]) == 1


@pytest.mark.parametrize("name", ["default", "served"])
@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/count_tokens", "/v1/streams", "/v1/chat/completions"])
async def test_another_model_is_refused(ask: Ask, gateway: Gateway, settings: Settings, path: str, name: str) -> None:
    restrict(gateway, "other")
    body = a_body(model=settings.model if name == "served" else name)
    if path.endswith("count_tokens"):
        del body["max_tokens"]
    r = await (await ask("POST", path, body)).whole()
    assert r.status == 403
    assert r.json()["error"]["message"].startswith("model: ")


async def test_it_is_not_listed_either(ask: Ask, gateway: Gateway, settings: Settings) -> None:
    restrict(gateway, "other")
    assert (await (await ask("GET", "/v1/models")).whole()).json()["data"] == []
    assert (await (await ask("GET", f"/v1/models/{settings.model}")).whole()).status == 403
    assert (await (await ask("GET", "/v1/models/unknown")).whole()).status == 404
