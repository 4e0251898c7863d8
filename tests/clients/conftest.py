"""One product that every client talks to, a page of another origin, and the ways to Node and to a browser.

The product pings within 0.1 s and thinks for 0.25 s before its first token: every stream has a ping in it, which none
of the clients may stumble over.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Product

NODE_FOLDER = Path(__file__).parent / "node"
NODE_LEAST = (22, 12)  # what the newest clients ask for
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
SAID = 'The tide came in: "Grüße", 世界, 🌊 and done.'
SAY = f"SLUICE-SAY: {SAID}"

Script = Callable[..., dict[str, Any]]


class Page(ThreadingHTTPServer):
    """Serves the page that reads streams, on an origin of its own, and answers what the page asks of it."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _PageHandler)
        self.answers: dict[str, Callable[[], dict[str, Any]]] = {}

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _PageHandler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, Page)
        answer = self.server.answers.get(self.path)
        body = json.dumps(answer()).encode() if answer else (NODE_FOLDER / "page.html").read_bytes()
        self.send_response(200)
        self.send_header("content-type", "application/json" if answer else "text/html; charset=utf-8")
        self.send_header("referrer-policy", "no-referrer")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="session")
def page() -> Iterator[Page]:
    """The page's server."""
    with Page() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(scope="session")
def product(page: Page) -> Iterator[Product]:
    """What all clients talk to."""
    environment = {
        "SLUICE_SIM_TPOT_MS": "5",
        "SLUICE_SIM_PREFILL_MS": "250",
        "SLUICE_HEARTBEAT_S": "0.1",
        "SLUICE_CORS_ORIGINS": page.origin,
    }
    product = Product(("--engine", "simulated"), environment).start()
    yield product
    assert product.stop() == 0, product.log[-4000:]


@pytest.fixture(scope="session")
def key(product: Product) -> str:
    """A key of that product."""
    return product.manage("createkey", "clients")


@pytest.fixture(scope="session")
def node() -> str:
    """A Node that is new enough: the machine's, or the one from the npm registry."""
    for candidate in (shutil.which("node"), NODE_FOLDER / "node_modules" / ".bin" / "node"):
        if candidate and Path(candidate).exists() and _version_of(candidate) >= NODE_LEAST:
            return str(candidate)
    pytest.fail("No Node of version 22.12 or newer; `make test-clients` brings one where npm is there.")


@pytest.fixture(scope="session")
def browser() -> str:
    """Chromium's path: `$CHROMIUM`, or the first one on the PATH."""
    for candidate in (os.environ.get("CHROMIUM", ""), *BROWSERS):
        if found := shutil.which(candidate):
            return found
    pytest.fail("No Chromium. Install one (Debian: apt-get install chromium), or name it: CHROMIUM=/path/to/it")


@pytest.fixture
def script(node: str, product: Product, key: str) -> Script:
    """Runs a script of `node/` and returns the JSON that it prints as its last line."""

    def run(name: str, *arguments: str, **environment: str) -> dict[str, Any]:
        asked = {"SLUICE_URL": product.url, "SLUICE_KEY": key, "SAY": SAY} | environment
        command = [node, str(NODE_FOLDER / name), *arguments]
        done = subprocess.run(command, env=script_environment(**asked), capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr[-4000:]
        result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return result

    return run


def script_environment(**more: str) -> dict[str, str]:
    """Return a script's environment: little of ours, so that no setting of the machine reaches a client."""
    return {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ} | more


def _version_of(node: str | Path) -> tuple[int, ...]:
    said = subprocess.run([node, "--version"], capture_output=True, text=True).stdout
    return tuple(int(part) for part in said.strip().lstrip("v").split(".")) if said.startswith("v") else ()
