"""Redis' troubles as a command tells of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import redis
from django.core.management.base import CommandError


@contextmanager
def told() -> Iterator[None]:
    """End the command in one line where Redis does not answer."""
    try:
        yield
    except redis.RedisError as error:
        said = " ".join(str(error).split())
        raise CommandError(f"Redis does not answer ({said}). `manage.py doctor` looks into it.") from None
