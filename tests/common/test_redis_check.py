from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import redis
from django.conf import settings
from django.core.management import CommandError, call_command
from django.test.utils import override_settings

from common.redis_check import UnfitRedis, check_redis, judge

FIT: dict[str, Any] = {"redis_version": "7.2.4", "maxmemory_policy": "noeviction"}


@pytest.fixture
def evicting(store: redis.Redis, redis_server: str) -> Iterator[str]:
    store.config_set("maxmemory-policy", "volatile-lru")
    yield redis_server
    store.config_set("maxmemory-policy", "noeviction")


def test_it_works(redis_server: str) -> None:
    assert check_redis(redis_server) is None


@pytest.mark.parametrize("version", ["6.2.0", 6.2, "7.0.15", "10.0.1"])
def test_new_servers_will_do(version: object) -> None:
    assert judge(FIT | {"redis_version": version}) is None


@pytest.mark.parametrize("version", ["6.0.16", 6.0, "5.0.7", "2.8.24"])
def test_it_rejects_an_old_server(version: object) -> None:
    with pytest.raises(UnfitRedis, match=rf"is {version}, the least is 6\.2\. Upgrade it"):
        judge(FIT | {"redis_version": version})


def test_it_rejects_one_that_evicts(evicting: str) -> None:
    with pytest.raises(UnfitRedis, match=r"maxmemory-policy volatile-lru.*CONFIG SET maxmemory-policy noeviction"):
        check_redis(evicting)


@pytest.mark.parametrize("silent", FIT)
def test_it_tells_of_what_it_cannot_know(silent: str) -> None:
    doubt = judge({name: value for name, value in FIT.items() if name != silent})
    assert doubt is not None
    assert "6.2 or newer with maxmemory-policy noeviction" in doubt


@pytest.mark.parametrize(("forbidden", "known"), [("-config", True), ("-info", False)])
def test_it_needs_no_right_but_info(store: redis.Redis, redis_server: str, forbidden: str, known: bool) -> None:
    store.acl_setuser("limited", enabled=True, passwords=["+secret"], commands=["+@all", forbidden])
    doubt = check_redis(redis_server.replace("unix://", "unix://limited:secret@"))
    store.acl_deluser("limited")
    assert (doubt is None) == known
    assert "secret" not in (doubt or "")


def test_one_that_is_down_may_come_yet() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens
        doubt = check_redis(f"redis://:secret@127.0.0.1:{taken.getsockname()[1]}/0")
    assert doubt is not None
    assert "127.0.0.1" in doubt
    assert "secret" not in doubt


def test_it_rejects_a_wrong_password(redis_server: str) -> None:
    with pytest.raises(UnfitRedis, match=r"refuses us(?!.*secret)"):
        check_redis(redis_server.replace("unix://", "unix://nobody:secret@"))


@pytest.mark.parametrize("url", ["localhost:6379", "http://localhost", "redis://:se/cret@localhost:6379"])
def test_it_rejects_what_is_no_url(url: str) -> None:
    with pytest.raises(UnfitRedis, match=r"REDIS_URL cannot be read(?!.*cret@)"):
        check_redis(url)


@pytest.mark.parametrize("command", ["serve", "gateway"])
def test_the_commands_refuse_it(command: str, evicting: str) -> None:
    sluice = replace(settings.SLUICE, redis_url=evicting)
    with override_settings(SLUICE=sluice), pytest.raises(CommandError, match="evicts data"):
        call_command(command, port=0)
