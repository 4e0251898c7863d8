"""What is refused while Redis has no memory left, and that it is served again afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import redis

from inference.protocol import keys
from tests.streaming.conftest import Ask, a_body


@contextmanager
def full(store: redis.Redis) -> Iterator[None]:
    store.config_set("maxmemory", 1)
    try:
        yield
    finally:
        store.config_set("maxmemory", 0)


@pytest.mark.parametrize("headers", [{}, {"idempotency_key": "k"}])
@pytest.mark.parametrize("path", ["/v1/messages", "/v1/streams", "/v1/chat/completions"])
async def test_new_work_is_refused_and_nothing_stays(
    ask: Ask, store: redis.Redis, path: str, headers: dict[str, str]
) -> None:
    assert (await (await ask("GET", "/v1/models")).whole()).status == 200
    with full(store):
        r = await (await ask("POST", path, a_body(), **headers)).whole()
    assert r.status == 529
    assert float(r.headers["retry-after"]) > 0
    if path == "/v1/messages":
        assert r.json()["error"]["type"] == "overloaded_error"
    assert not list(store.scan_iter(keys.log("*")))
    assert (await (await ask("POST", path, a_body(), **headers)).whole()).status in (200, 202)
