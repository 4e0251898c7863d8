"""Starts the product as a user would, and reads its streams strictly."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, LiteralString

import httpx
import pytest
from django.conf import settings

from config.leash import leashed
from tests.databases import closed, make_database, rows
from tests.environment import ROOT

READY_S = 120.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Product:
    """One `manage.py serve` with a home and a database of its own, on PostgreSQL where the tests have one."""

    arguments: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    home: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="sluice-e2e-")))
    port: int = field(default_factory=free_port)

    def __post_init__(self) -> None:
        models = str(settings.SLUICE.models_path)
        server = os.environ.get("TEST_DATABASE_URL")
        self.database = self.environment.get("DATABASE_URL") or (make_database(server) if server else "")
        ours = {"SLUICE_HOME": str(self.home), "SLUICE_MODELS": models, "DATABASE_URL": self.database}
        self.environment = os.environ | ours | self.environment
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        return (self.home / "serve.log").read_text(errors="replace")

    def start(self) -> Product:
        command = [sys.executable, "manage.py", "serve", "--port", str(self.port), *self.arguments]
        with open(self.home / "serve.log", "ab") as out:
            self.process = subprocess.Popen(
                leashed(tuple(command)), cwd=ROOT, env=self.environment, stdout=out, stderr=out, start_new_session=True
            )
        try:
            self._wait_until_ready(self.process)
        except BaseException:  # a test's timeout, too
            self.stop()
            raise
        return self

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + READY_S
        while not self.ready():
            assert process.poll() is None, f"it has ended\n{self.log[-4000:]}"
            assert time.monotonic() < deadline, f"not ready\n{self.log[-4000:]}"
            time.sleep(0.1)

    def ready(self) -> bool:
        with contextlib.suppress(httpx.HTTPError):
            return httpx.get(self.url + "/readyz", timeout=2).status_code == 200
        return False

    def stop(self) -> int:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(60)
        finally:
            with contextlib.suppress(OSError):
                self.process.kill()

    def manage(self, *arguments: str) -> str:
        command = [sys.executable, "manage.py", *arguments]
        done = subprocess.run(command, cwd=ROOT, env=self.environment, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    @contextlib.contextmanager
    def without_database(self) -> Iterator[None]:
        """Put something where the database was that cannot be opened; on PostgreSQL, lock everybody out."""
        if self.database:
            with closed(self.database):
                yield
            return
        database = self.home / "sluice.sqlite3"
        moved = [(path, path.with_name(f"{path.name}.away")) for path in self.home.glob("sluice.sqlite3*")]
        for path, away in moved:
            path.rename(away)
        database.mkdir()
        try:
            yield
        finally:
            database.rmdir()
            for path, away in moved:
                away.rename(path)

    def rows(self, query: LiteralString) -> list[tuple[Any, ...]]:
        """What a query of its database finds."""
        if self.database:
            return rows(self.database, query)
        with contextlib.closing(sqlite3.connect(self.home / "sluice.sqlite3")) as database:
            return database.execute(query).fetchall()

    def processes(self, word: str = "") -> list[int]:
        """The processes below `serve` that have a word in their command line."""
        assert self.process is not None
        found: list[int] = []
        todo = [self.process.pid]
        while todo:
            pid = todo.pop()
            with contextlib.suppress(OSError):
                for task in Path(f"/proc/{pid}/task").iterdir():
                    todo += map(int, (task / "children").read_text().split())
                line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
                if pid != self.process.pid and word in line:
                    found.append(pid)
        return found


@dataclass(frozen=True)
class Event:
    """One event of a stream, and when it came."""

    id: str | None
    type: str
    data: dict[str, Any]
    at: float


def a_body(text: str = "Write a short story about a lighthouse keeper.", **more: Any) -> dict[str, Any]:
    body = {"model": "default", "max_tokens": 16, "temperature": 0, "messages": [{"role": "user", "content": text}]}
    return body | more


def events_of(response: httpx.Response) -> Iterator[Event]:
    """Read frames, refusing whatever a strict client would."""
    frame: dict[str, str] = {}
    for line in response.iter_lines():
        assert "\r" not in line
        if line:
            name, _, value = line.partition(": ")
            frame[name] = value
            continue
        data = json.loads(frame["data"])
        assert frame["event"] == data["type"]
        yield Event(frame.get("id"), frame["event"], data, time.monotonic())
        frame = {}
    assert not frame, "the stream ends with a whole frame"


def stream(product: Product, key: str, body: dict[str, Any]) -> list[Event]:
    """Post a message and read its stream to the end."""
    with httpx.stream(
        "POST", product.url + "/v1/messages", json=body | {"stream": True}, headers={"x-api-key": key}, timeout=120
    ) as response:
        assert response.status_code == 200, response.read()
        return list(events_of(response))


def text_of(events: list[Event]) -> str:
    return "".join(e.data["delta"]["text"] for e in events if e.type == "content_block_delta")


def records_of(product: Product, key: str, count: int) -> list[dict[str, Any]]:
    """The records of a key's organisation, once there are `count`."""
    deadline = time.monotonic() + 20
    while True:
        rows: list[dict[str, Any]] = httpx.get(product.url + "/v1/requests", headers={"x-api-key": key}).json()[
            "results"
        ]
        if len(rows) >= count or time.monotonic() > deadline:
            return rows
        time.sleep(0.2)


@pytest.fixture(scope="session")
def real() -> Iterator[Product]:
    """The default model on the default engine."""
    product = Product().start()
    yield product
    assert product.stop() == 0, product.log[-4000:]


@pytest.fixture(scope="session")
def simulated() -> Iterator[Product]:
    """The simulated engine, two gateways and two workers."""
    arguments = ("--engine", "simulated", "--workers", "2", "--gateways", "2")
    product = Product(arguments, {"SLUICE_SIM_TPOT_MS": "10"}).start()
    yield product
    assert product.stop() == 0, product.log[-4000:]


@pytest.fixture(scope="session")
def real_key(real: Product) -> str:
    return real.manage("createkey", "test")


@pytest.fixture(scope="session")
def simulated_key(simulated: Product) -> str:
    return simulated.manage("createkey", "test")
