"""Books for the tests of quotas."""

from __future__ import annotations

import pytest
import redis

from tests.quotas.tools import Books


@pytest.fixture
def books(store: redis.Redis) -> Books:
    return Books(store)
