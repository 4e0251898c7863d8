"""Connections to Redis for Django's side."""

from __future__ import annotations

from functools import cache

import redis
from django.conf import settings


@cache
def connection() -> redis.Redis:
    """Return this process's client (its pool is safe for threads)."""
    return redis.Redis.from_url(settings.SLUICE.redis, socket_timeout=10, socket_connect_timeout=5)
