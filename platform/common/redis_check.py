"""Whether a Redis that is not ours will do: looked at once, at start."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import urlsplit

import redis
from django.core.management import CommandError

OLDEST = (6, 2)
_FORMS = "redis://user:password@host:port/0, rediss://… or unix:///path"
_UNCHECKED = f"See yourself that it is {'.'.join(map(str, OLDEST))} or newer with maxmemory-policy noeviction."


class UnfitRedis(CommandError):
    """Raised for a Redis that would lose data or lacks what we use: ends the command, saying what to do."""


def check_redis(url: str) -> str | None:
    """Return what could not be found out, None when all is well; raise `UnfitRedis`."""
    try:
        # Only INFO: managed servers forbid CONFIG, and this has the policy as well.
        with redis.Redis.from_url(url, socket_timeout=5, socket_connect_timeout=5) as client:
            info = cast(dict[str, Any], client.info("server")) | cast(dict[str, Any], client.info("memory"))
        return judge(info)
    except ValueError:  # its message may have a part of the password
        raise UnfitRedis(f"REDIS_URL cannot be read: expected {_FORMS}.") from None
    except redis.AuthenticationError as error:
        raise UnfitRedis(f"{_place(url)} refuses us: {error} REDIS_URL takes {_FORMS}.") from None
    except (redis.ConnectionError, redis.TimeoutError, OSError):
        return f"{_place(url)} does not answer. {_UNCHECKED}"
    except redis.ResponseError as error:
        return f"{_place(url)} does not answer INFO ({error}). {_UNCHECKED}"


def judge(info: Mapping[str, Any]) -> str | None:
    """Judge a server by its own account, as `check_redis` does."""
    version = str(info.get("redis_version", ""))
    numbers = tuple(map(int, re.findall(r"\d+", version)[:2]))
    oldest = ".".join(map(str, OLDEST))
    if numbers and numbers < OLDEST:
        raise UnfitRedis(
            f"This Redis is {version}, the least is {oldest}. Upgrade it, or unset REDIS_URL to use the embedded one."
        )
    policy = str(info.get("maxmemory_policy", ""))
    if policy and policy != "noeviction":
        # Refused even where no maxmemory is set yet: one day the first to be evicted would be unbilled settlements.
        raise UnfitRedis(
            f"This Redis evicts data when its memory is full (maxmemory-policy {policy}): requests, streams and bills "
            "would vanish. Run CONFIG SET maxmemory-policy noeviction, or set it in your provider's parameters."
        )
    if not (numbers and policy):
        return f"This Redis does not tell its version or its maxmemory-policy. {_UNCHECKED}"
    return None


def _place(url: str) -> str:
    """Return where a URL leads, without its password."""
    parts = urlsplit(url)
    return f"The Redis at {parts.netloc.rpartition('@')[2] or parts.path}"
