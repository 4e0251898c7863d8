"""An operator with some permissions, and messages of two tenants."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import redis
from django.contrib.auth.models import Permission, User
from django.test import Client

from tests.conftest import Tenant
from tests.console.tools import begin, claim, queue

Staff = Callable[..., Client]


@pytest.fixture
def staff(client: Client, db: None) -> Staff:
    """Log somebody in who has some permissions."""

    def log_in(*names: str) -> Client:
        user = User.objects.create_user("olga", is_staff=True)
        user.user_permissions.set(Permission.objects.filter(codename__in=names))
        client.force_login(user)
        return client

    return log_in


@pytest.fixture
def two(store: redis.Redis, alice: Tenant, charlie: Tenant) -> None:
    """Alice's message runs, Charlie's waits."""
    for tenant in (alice, charlie):
        queue(store, f"msg_{tenant.key.name}", organization=tenant.key.organization_id, key=tenant.key.pk)
    begin(store, *claim(store))
