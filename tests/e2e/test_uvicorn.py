"""The application under another ASGI server."""

from __future__ import annotations

import subprocess
import sys
import time

import httpx
import pytest

from tests.e2e.conftest import Product, a_body, events_of, free_port
from tests.environment import ROOT

pytestmark = pytest.mark.e2e


def test_it_runs_unchanged_under_uvicorn(simulated: Product, simulated_key: str) -> None:
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "config.asgi:application", "--port", str(port), "--lifespan", "off"]
    server = subprocess.Popen([*command, "--log-level", "warning"], cwd=ROOT, env=simulated.environment)
    url = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                if httpx.get(url + "/readyz").status_code == 200:
                    break
            except httpx.HTTPError:
                time.sleep(0.1)
        headers = {"x-api-key": simulated_key}
        with httpx.stream("POST", url + "/v1/messages", json=a_body(stream=True), headers=headers) as response:
            events = list(events_of(response))
        assert events[-1].type == "message_stop"
        assert len(events) > 16
    finally:
        server.terminate()
        assert server.wait(20) in (0, -15)
