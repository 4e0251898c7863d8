"""A gateway without the web, and a web process without streams, beside each other."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

import httpx
import pytest

from tests.e2e.conftest import Product, a_body, events_of, free_port
from tests.environment import ROOT

pytestmark = pytest.mark.e2e

LOGIN = {"username": "watcher", "password": "a-long-pass-phrase"}


@dataclass
class Part:
    """A process of its own."""

    process: subprocess.Popen[bytes]
    url: str

    def wait_until_ready(self) -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            assert self.process.poll() is None
            try:
                if httpx.get(self.url + "/readyz").status_code == 200:
                    return
            except httpx.HTTPError:
                pass
            time.sleep(0.1)
        pytest.fail(f"{self.url} is not ready")

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)


@pytest.fixture(scope="module")
def parts(simulated: Product) -> Iterator[tuple[Part, Part]]:
    """A gateway and a web process, of a product that runs."""
    made = []
    for arguments in (("gateway", "--no-web"), ("web",)):
        port = free_port()
        command = [sys.executable, "manage.py", *arguments, "--port", str(port)]
        process = subprocess.Popen(command, cwd=ROOT, env=simulated.environment)
        made.append(Part(process, f"http://127.0.0.1:{port}"))
    try:
        for part in made:
            part.wait_until_ready()
        yield made[0], made[1]
        for part in made:
            if part.process.poll() is None:
                assert part.stop() == 0
    finally:
        for part in made:
            part.process.kill()
            part.process.wait()


def test_each_serves_its_own(parts: tuple[Part, Part], simulated_key: str) -> None:
    gateway, web = parts
    headers = {"x-api-key": simulated_key}
    with httpx.stream("POST", gateway.url + "/v1/messages", json=a_body(stream=True), headers=headers) as response:
        assert list(events_of(response))[-1].type == "message_stop"
    assert httpx.get(web.url + "/v1/usage", headers=headers).status_code == 200
    assert httpx.get(web.url + "/admin/login/").status_code == 200
    assert httpx.get(web.url + "/static/common/page.css").status_code == 200


def test_neither_serves_the_others(parts: tuple[Part, Part], simulated_key: str) -> None:
    gateway, web = parts
    headers = {"x-api-key": simulated_key}
    posted = httpx.post(web.url + "/v1/messages", json=a_body(stream=True), headers=headers)
    for response, told in ((posted, "manage.py gateway"), (httpx.get(gateway.url + "/admin/login/"), "manage.py web")):
        assert response.status_code == 404
        assert response.json()["request_id"] == response.headers["request-id"]
        assert told in response.json()["error"]["message"]


def test_the_web_tells_who_watches_that_it_ends(parts: tuple[Part, Part], simulated: Product) -> None:
    _, web = parts
    make = [sys.executable, "manage.py", "createsuperuser", "--noinput", "--email", "w@example.org"]
    environment = simulated.environment | {"DJANGO_SUPERUSER_PASSWORD": LOGIN["password"]}
    subprocess.run([*make, "--username", LOGIN["username"]], cwd=ROOT, env=environment, check=True)
    with httpx.Client(base_url=web.url, follow_redirects=True, timeout=30) as browser:
        token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', browser.get("/admin/login/").text)
        assert token
        login = LOGIN | {"csrfmiddlewaretoken": token[1], "next": "/admin/console/workers/"}
        page = browser.post("/admin/login/", data=login).text
        running = set(re.findall(r'aria-label="(?:Worker|Gateway) ([^"]+)"', page))
        assert f"{os.uname().nodename}-{parts[0].process.pid}" in running
        assert f"{os.uname().nodename}-{web.process.pid}" not in running, "it has no streams"
        with browser.stream("GET", "/admin/console/streams/live") as live:
            assert live.status_code == 200
            lines = live.iter_lines()
            assert "event: whole" in lines
            web.process.send_signal(signal.SIGTERM)
            assert "event: leaving" in lines
            assert not [line for line in lines if line.startswith("event")], "that was the last"
    assert web.process.wait(30) == 0
