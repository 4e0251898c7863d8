"""What tests of the objectives begin with: counts of one process, on their way to Redis."""

from __future__ import annotations

import time

import pytest
import redis

from common.counts import tell_minutes
from inference.protocol.minutes import Counts, MinuteTally


class Counting:
    """Counts what happened in this hour, and has it stored."""

    def __init__(self, client: redis.Redis) -> None:
        self.now = int(time.time())
        self._client = client
        self._tally = MinuteTally(lambda: self.now)

    def of(self, model: str = "m", organization: str = "o", *, ago_s: float = 0) -> Counts:
        return self._tally.of(model, organization, at=self.now - ago_s)

    def send(self) -> None:
        tell_minutes(self._client, "test", self._tally)


@pytest.fixture
def counting(store: redis.Redis) -> Counting:
    return Counting(store)
