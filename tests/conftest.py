"""What many tests need: a Redis of the run's own, a tenant and an outsider, the real model's folder."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import redis
from django.conf import settings
from django.contrib.auth.models import Permission, User
from django.test import Client
from hypothesis import settings as hypothesis_settings

from accounts.keys import create_key
from accounts.models import ApiKey
from config.embedded_redis import prepare, until_it_answers

# A speed goal belongs in a benchmark; on a busy machine any example may take its time.
hypothesis_settings.register_profile("sluice", deadline=None)
hypothesis_settings.load_profile("sluice")


@pytest.fixture(scope="session")
def redis_server() -> Iterator[str]:
    """The embedded Redis, at the address that the settings name; its URL."""
    server = prepare(settings.SLUICE.home_path)
    process = subprocess.Popen(server.command, stdout=subprocess.DEVNULL, pass_fds=(server.lock,))
    asyncio.run(asyncio.wait_for(until_it_answers(server.url), 20))
    yield server.url
    process.terminate()
    process.wait(10)
    server.forget()


@pytest.fixture
def store(redis_server: str) -> Iterator[redis.Redis]:
    """A client of an empty Redis."""
    client = redis.Redis.from_url(redis_server)
    client.flushall()
    yield client
    client.close()


@pytest.fixture(scope="session")
def model_folder() -> Path:
    """The default model, which `make test` fetches."""
    folder = settings.SLUICE.models_path / settings.SLUICE.model
    assert (folder / "tokenizer.json").exists(), "run `make model`"
    return Path(folder)


@dataclass(frozen=True)
class Tenant:
    """A key and what it is in plain."""

    key: ApiKey
    plain: str

    @property
    def headers(self) -> dict[str, str]:
        return {"x-api-key": self.plain}


@pytest.fixture
def alice(db: None) -> Tenant:
    """Owns things, in the organisation `alpha`."""
    return Tenant(*create_key(name="alice", organization="alpha"))


@pytest.fixture
def bob(alice: Tenant) -> Tenant:
    """Works with Alice."""
    return Tenant(*create_key(name="bob", organization="alpha"))


@pytest.fixture
def charlie(db: None) -> Tenant:
    """Must never see anything of theirs."""
    return Tenant(*create_key(name="charlie", organization="gamma"))


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
