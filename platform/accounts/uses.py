"""When keys were last used: noted in memory, gathered in Redis now and then, written by Celery in bulk."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime
from typing import cast

import redis
from redis.exceptions import RedisError

from accounts.models import ApiKey

USED = "sluice:accounts:used"  # sorted set: key id -> when it was last used, in seconds
GATHER_S = 10.0
STORE_S = 30.0
BATCH = 1000


class Uses:
    """The keys that this process saw since it last told of them. All threads share one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: dict[str, float] = {}
        self._taken_at = time.monotonic()

    def note(self, key: str) -> None:
        """Note that a key is used now."""
        with self._lock:
            self._seen[key] = time.time()

    def take(self) -> dict[str, float]:
        """Return what was noted, and begin anew."""
        with self._lock:
            taken, self._seen = self._seen, {}
            self._taken_at = time.monotonic()
        return taken

    def give_back(self, taken: dict[str, float]) -> None:
        """Note again what could not be told."""
        with self._lock:
            self._seen = taken | self._seen

    def is_due(self) -> bool:
        """Say whether it is time to tell."""
        return time.monotonic() - self._taken_at > GATHER_S


USES = Uses()


def gather(client: redis.Redis, uses: Uses = USES) -> None:
    """Tell Redis of the keys that were used."""
    if taken := uses.take():
        try:
            client.zadd(USED, taken, gt=True)
        except (RedisError, OSError):
            uses.give_back(taken)
            raise


def store_uses(client: redis.Redis) -> int:
    """Write one batch of last uses to the database; return how many there were."""
    taken = cast(list[tuple[bytes, float]], client.zpopmin(USED, BATCH))
    if taken:
        try:
            _store({key.decode(): datetime.fromtimestamp(at, UTC) for key, at in taken})
        except Exception:
            client.zadd(USED, dict(taken), gt=True)  # for the next turn
            raise
    return len(taken)


def _store(used: dict[str, datetime]) -> None:
    """Write last uses; only that field, since others may change a key at the same time."""
    keys = list(ApiKey.objects.filter(pk__in=used).only("pk", "last_used_at"))
    for key in keys:
        key.last_used_at = max(used[key.pk], key.last_used_at or used[key.pk])
    ApiKey.objects.bulk_update(keys, ["last_used_at"], batch_size=500)
