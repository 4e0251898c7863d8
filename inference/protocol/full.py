"""Telling a Redis that has no memory left from other errors."""

from __future__ import annotations

from redis.exceptions import OutOfMemoryError, RedisError


def is_full(error: RedisError) -> bool:
    """Say whether Redis refused something because it has no memory for it."""
    return isinstance(error, OutOfMemoryError) or "OOM" in str(error)  # Redis 6 wraps what a script met
