from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import redis
from django.conf import settings
from django.test.utils import override_settings

from config import tasks
from config.append_only import is_due, is_ours_to_rewrite, rewrite
from inference.protocol.settings import Settings

PROMPT = b"a prompt that nobody should find"
IDLE: dict[str, Any] = {"aof_enabled": 1, "aof_current_size": 20, "aof_base_size": 10}


def files() -> list[Path]:
    return [path for path in (settings.SLUICE.home_path / "redis").rglob("*") if path.is_file()]


def found() -> bool:
    return any(PROMPT in path.read_bytes() for path in files())


@pytest.fixture
async def written(store: redis.Redis) -> AsyncIterator[redis.Redis]:
    """A Redis that had a prompt a moment ago, and rewrites nothing by itself."""
    usual = str(store.config_get("auto-aof-rewrite-percentage")["auto-aof-rewrite-percentage"])
    store.config_set("auto-aof-rewrite-percentage", 0)
    await until_rewritten(store)
    store.set("log", PROMPT * 3)
    store.delete("log")
    await until_written()
    yield store
    store.config_set("auto-aof-rewrite-percentage", usual)


async def until_rewritten(store: redis.Redis) -> None:
    async with asyncio.timeout(20):
        while any(store.info("persistence")[f"aof_rewrite_{state}"] for state in ("scheduled", "in_progress")):
            await asyncio.sleep(0.02)


async def until_written() -> None:
    """Await the prompt in the file: Redis puts a write off while the disk syncs the one before."""
    async with asyncio.timeout(20):
        while not found():
            await asyncio.sleep(0.02)


async def test_it_works(written: redis.Redis) -> None:
    assert found()
    assert rewrite(written)
    await until_rewritten(written)
    assert not found()


async def test_the_task_does_it(written: redis.Redis) -> None:
    tasks.rewrite_append_only_file()
    await until_rewritten(written)
    assert not found()


async def test_a_redis_of_others_is_left_alone(written: redis.Redis) -> None:
    with override_settings(SLUICE=replace(settings.SLUICE, redis_url="redis://elsewhere")):
        tasks.rewrite_append_only_file()
    assert found()


@pytest.mark.parametrize(
    "changes",
    [
        {"aof_enabled": 0},
        {"aof_current_size": 10},
        {"aof_rewrite_in_progress": 1},
        {"rdb_bgsave_in_progress": 1},
        {"loading": 1},
    ],
)
def test_it_waits_for_a_better_time(changes: dict[str, Any]) -> None:
    assert is_due(IDLE)
    assert not is_due(IDLE | changes)


@pytest.mark.parametrize(
    ("changes", "ours"),
    [
        ({}, True),
        ({"aof_rewrite_s": 0.0}, False),
        ({"redis_url": "redis://elsewhere"}, False),
        ({"redis_url": "redis://elsewhere", "aof_rewrite_any": True}, True),
    ],
)
def test_whose_file_it_is(changes: dict[str, Any], ours: bool) -> None:
    sluice: Settings = replace(settings.SLUICE, **changes)
    assert is_ours_to_rewrite(sluice) == ours


def test_the_embedded_one_is_known_by_its_address() -> None:
    sluice: Settings = settings.SLUICE
    assert is_ours_to_rewrite(replace(sluice, redis_url=sluice.redis))
