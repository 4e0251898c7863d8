"""Redis' append-only file: what was deleted is in it until it is rewritten, prompts and answers among that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import redis

from inference.protocol.settings import Settings

_BUSY = ("loading", "aof_rewrite_in_progress", "aof_rewrite_scheduled", "rdb_bgsave_in_progress")


def is_ours_to_rewrite(settings: Settings) -> bool:
    """Say whether the settings have us look after the file: of the embedded Redis, or of any."""
    is_embedded = settings.redis == replace(settings, redis_url="").redis
    return settings.aof_rewrite_s > 0 and (is_embedded or settings.aof_rewrite_any)


def rewrite(client: redis.Redis) -> bool:
    """Have the file rewritten in the background where there is anything to rewrite; say whether there was."""
    due = is_due(client.info("persistence"))
    if due:
        client.bgrewriteaof()
    return due


def is_due(info: Mapping[str, Any]) -> bool:
    """Say whether anything was written since the last time, by Redis' own account, and it has time for this."""
    if not info.get("aof_enabled") or any(info.get(name) for name in _BUSY):
        return False
    return bool(info["aof_current_size"] > info["aof_base_size"])
