from __future__ import annotations

import stat
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import redis

from config import embedded_redis
from config.embedded_redis import EmbeddedRedis, EmbeddedRedisError, find_server, prepare, until_it_answers
from config.output import Output
from config.programs import redis_program
from config.supervisor import Supervisor
from tests.config.transcript import Transcript


@pytest.fixture
def home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="sluice-test-") as folder:  # pytest's folders have long names
        yield Path(folder)


@asynccontextmanager
async def running(home: Path) -> AsyncIterator[EmbeddedRedis]:
    prepared = prepare(home)
    try:
        async with Supervisor(Output(Transcript())) as supervisor:
            supervisor.start(redis_program(prepared))
            await until_it_answers(prepared.url)
            yield prepared
    finally:
        prepared.forget()


def write(url: str, value: str) -> None:
    with redis.Redis.from_url(url) as client:
        client.set("key", value)


def read(url: str) -> bytes | None:
    with redis.Redis.from_url(url) as client:
        value: bytes | None = client.get("key")
        return value


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def test_it_works(home: Path) -> None:
    async with running(home) as first:
        assert first.url == f"unix://{home}/redis/redis.sock"
        write(first.url, "kept")

    async with running(home) as second:
        assert read(second.url) == b"kept"


async def test_it_keeps_its_files_private(home: Path) -> None:
    async with running(home) as server:
        write(server.url, "secret")

        assert mode(server.folder) == 0o700
        files = [path for path in server.folder.rglob("*") if path.is_file()]
        assert any(path.suffix == ".aof" for path in files)
        assert {mode(path) for path in files} == {0o600}


async def test_it_never_evicts(home: Path) -> None:
    async with running(home) as server:
        with redis.Redis.from_url(server.url) as client:
            assert client.config_get("maxmemory-policy")["maxmemory-policy"] == "noeviction"
            assert client.config_get("appendonly")["appendonly"] == "yes"


@pytest.mark.parametrize("name", ["a" * 90, 'with "quotes" and spaces'])
async def test_it_takes_a_port_where_the_path_will_not_do(home: Path, name: str) -> None:
    async with running(home / name) as server:
        write(server.url, "by port")

        assert server.url.startswith("redis://:")
        assert (server.folder / "url").read_text() == server.url
        assert mode(server.folder / "url") == 0o600
        assert read(server.url) == b"by port"
    assert not (server.folder / "url").exists()


async def test_its_port_wants_a_password(home: Path) -> None:
    async with running(home / ("a" * 90)) as server:
        address = server.url.partition("@")[2]

        with pytest.raises(redis.AuthenticationError):
            read(f"redis://{address}")


async def test_it_rejects_a_second_server(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded_redis, "PATIENCE_S", 0.0)
    async with running(home):
        with pytest.raises(EmbeddedRedisError, match="in use by another `serve`"):
            prepare(home)


def test_it_rejects_an_old_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = tmp_path / "redis-server"
    old.write_text("#!/bin/sh\necho Redis server v=5.0.7 sha=0\n")
    old.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    assert find_server() != str(old)

    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EmbeddedRedisError, match=r"redis-server is 5\.0"):
        find_server()
