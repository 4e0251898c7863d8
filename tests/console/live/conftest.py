"""Messages of two tenants."""

from __future__ import annotations

import pytest
import redis

from tests.conftest import Tenant
from tests.console.tools import begin, claim, queue


@pytest.fixture
def two(store: redis.Redis, alice: Tenant, charlie: Tenant) -> None:
    """Alice's message runs, Charlie's waits."""
    for tenant in (alice, charlie):
        queue(store, f"msg_{tenant.key.name}", organization=tenant.key.organization_id, key=tenant.key.pk)
    begin(store, *claim(store))
