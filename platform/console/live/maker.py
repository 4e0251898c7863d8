"""Who makes the table of open streams: one process of all, and only while somebody watches."""

from __future__ import annotations

import secrets
import threading
import time
from typing import cast

import redis
from django.db import close_old_connections

from console.live.names import NameBook
from console.live.rows import rows_of
from console.live.streams import picture
from console.live.table import Table
from inference.protocol import keys

EVERY_S = 1.0
REST = 4  # times what a look computed is waited before the next: it never takes more than a fifth of a processor
MOST = 5000  # rows
LEASE_MS = 5000


def is_watched(client: redis.Redis) -> bool:
    """Say whether any page is open."""
    return bool(client.exists(keys.WATCHED))


class Maker:
    """Publishes the table's changes, and the whole of it to those who ask."""

    def __init__(self, client: redis.Redis) -> None:
        self._redis = client
        self._token = secrets.token_hex(8)
        self._names = NameBook()
        self._table: Table | None = None

    def run(self, stopping: threading.Event) -> None:
        """Make the table until nobody watches, or this process stops; at once return where another does it."""
        if not self._redis.set(keys.TABLE_MAKER, self._token, nx=True, px=LEASE_MS):
            return
        wait_s = 0.0
        try:
            while not stopping.wait(wait_s) and self._goes_on():
                began, computed = time.monotonic(), time.thread_time()
                self.turn()
                close_old_connections()  # names are seldom looked up
                wait_s = max(began + EVERY_S - time.monotonic(), REST * (time.thread_time() - computed))
        finally:
            if self._has_lease():
                self._redis.delete(keys.TABLE_MAKER)

    def turn(self) -> None:
        """Look once, and tell what has changed."""
        now = picture(self._redis, most=MOST)
        rows = rows_of(now.streams, self._names)
        first = self._table is None
        table = self._table = self._table or Table(round(now.at_ms))  # so that a later maker's numbers are higher
        changes = table.update(rows, total=now.total, queues=now.queues, at_ms=now.at_ms)
        if not first:
            self._redis.publish(keys.TABLE, changes.encode())
        if self._redis.getdel(keys.ASKED) is not None or first:
            self._redis.publish(keys.TABLE, table.whole().encode())

    def _goes_on(self) -> bool:
        return is_watched(self._redis) and self._has_lease() and bool(self._redis.pexpire(keys.TABLE_MAKER, LEASE_MS))

    def _has_lease(self) -> bool:
        return cast(bytes | None, self._redis.get(keys.TABLE_MAKER)) == self._token.encode()
