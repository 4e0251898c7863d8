"""Batches in the database, a worker with the simulated engine, a real Redis between them."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import redis

from accounts.models import ApiKey
from inference.protocol import keys, scripts
from inference.protocol.settings import Settings
from inference.worker import Worker
from streaming.batches import runner
from streaming.batches.collecting import Collecting
from streaming.prompts import PromptTemplate
from tests.conftest import Tenant

Go = Callable[..., None]


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return replace(settings, sim_tpot_ms=1.0, sim_prefill_ms=1.0)


@pytest.fixture
def alice(alice: Tenant) -> Tenant:
    return unchecked(alice)


@pytest.fixture
def charlie(charlie: Tenant) -> Tenant:
    return unchecked(charlie)


def unchecked(tenant: Tenant) -> Tenant:
    ApiKey.objects.filter(pk=tenant.key.pk).update(policy="off")
    return tenant


@pytest.fixture
def go(settings: Settings, template: PromptTemplate, monkeypatch: pytest.MonkeyPatch) -> Go:
    """Run batches until all have ended, something else is reached, or for so many seconds."""
    monkeypatch.setattr("streaming.catalog.PromptTemplate.load", lambda _: template)
    monkeypatch.setattr(runner, "TEMPLATES", {})
    monkeypatch.setattr(runner, "REFRESH_S", 0.1)

    def run(for_s: float = 30, *, until: Callable[[], bool] = lambda: False, **changes: Any) -> None:
        asyncio.run(runner.run(replace(settings, **changes), stopping=until, for_s=for_s))

    return run


def begun(store: redis.Redis, ids: list[str]) -> int:
    """How many of some messages have a log."""
    return sum(bool(store.exists(keys.meta(name))) for name in ids)


def busy(worker: Worker, store: redis.Redis) -> None:
    """Let a worker claim nothing more, though it lives."""
    worker.stop()
    while store.hexists(keys.WORKERS, worker.id):
        time.sleep(0.02)
    store.eval(scripts.BEAT, 1, keys.WORKERS, worker.id, json.dumps(worker.about()))


@pytest.fixture
def uncollected(go: Go, store: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> Callable[[list[str]], None]:
    """Begin requests, and leave before any of them has ended."""

    def begin(ids: list[str]) -> None:
        async def look_away(_: Any) -> None:
            pass

        with monkeypatch.context() as patched:
            patched.setattr(Collecting, "collect", look_away)
            go(until=lambda: begun(store, ids) == len(ids))

    return begin
