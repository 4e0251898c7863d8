"""A browser's EventSource, on a page of another origin: typed events, reconnects, resuming, and who may not."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest

from tests.clients.conftest import NODE_FOLDER, SAID, SAY, Page, script_environment
from tests.e2e.conftest import Product, a_body

pytestmark = pytest.mark.clients


class Window:
    """A browser that opens the page for one scenario after another and returns what it found out.

    As a customer's server would, the page's asks for a detached stream, and hands the page no more than its URL.
    """

    def __init__(self, process: subprocess.Popen[str], page: Page, product: Product, key: str) -> None:
        self._process, self.page, self._product = process, page, product
        self._headers = {"x-api-key": key}
        self._made: dict[str, Any] = {}
        page.answers = {"/stream": self._make, "/held": self._make_held, "/go": self.go, "/cut": self._cut}

    def __call__(self, scenario: str, origin: str = "", **more: str) -> dict[str, Any]:
        query = urlencode({"scenario": scenario, "base": self._product.url} | more)
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(f"{origin or self.page.origin}/?{query}\n")
        self._process.stdin.flush()
        seen: dict[str, Any] = json.loads(self._process.stdout.readline())
        return seen

    def message(self) -> str:
        """The text of the message that was streamed last."""
        r = httpx.get(self._product.url + self._made["message_url"], headers=self._headers)
        return str(r.json()["content"][0]["text"])

    def go(self) -> dict[str, Any]:
        """Wake the worker."""
        return self._signal("-m inference", signal.SIGCONT)

    def _make_held(self) -> dict[str, Any]:
        self._signal("-m inference", signal.SIGSTOP)
        return self._make()

    def _make(self) -> dict[str, Any]:
        r = httpx.post(self._product.url + "/v1/streams", json=a_body(max_tokens=300), headers=self._headers)
        assert r.status_code == 202
        self._made = r.json()
        return {"url": self._product.url + self._made["stream_url"]}

    def _cut(self) -> dict[str, Any]:
        return self._signal("manage.py gateway", signal.SIGKILL)

    def _signal(self, word: str, number: signal.Signals) -> dict[str, Any]:
        for pid in self._product.processes(word):
            os.kill(pid, number)
        return {}


@pytest.fixture(scope="module")
def window(node: str, browser: str, page: Page, product: Product, key: str) -> Iterator[Window]:
    command = [node, str(NODE_FOLDER / "browser.mjs")]
    with subprocess.Popen(
        command, env=script_environment(CHROMIUM=browser), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        window = Window(process, page, product, key)
        yield window
        window.go()
        assert process.stdin
        process.stdin.close()
        assert process.wait(20) == 0


def check(seen: dict[str, Any], window: Window) -> None:
    """Each event came once and in order, and the message is what they say."""
    events = seen["events"]
    assert [event["id"] for event in events] == [str(i) for i in range(1, len(events) + 1)]
    kinds = [event["type"] for event in events]
    assert kinds == [
        "message_start", "content_block_start", *["content_block_delta"] * (len(kinds) - 5),
        "content_block_stop", "message_delta", "message_stop",
    ]  # fmt: skip
    text = "".join(event["data"]["delta"]["text"] for event in events if event["type"] == "content_block_delta")
    assert text == window.message()


def test_it_reads_to_the_end_and_then_stops(window: Window) -> None:
    seen = window("held")
    check(seen, window)
    assert seen["opens"] == 1
    assert seen["closed"], "the 204 after the end stops its reconnects"
    assert seen["pings"] > 0, "while it was queued"
    assert seen["tookMs"] > 1000, "it came as it was made"


def test_a_new_source_resumes_by_the_query(window: Window) -> None:
    seen = window("renew")
    check(seen, window)
    assert seen["opens"] == 2
    assert seen["cutAt"] == 30


def test_it_reconnects_when_its_gateway_dies(window: Window, product: Product) -> None:
    seen = window("cut")
    deadline = time.monotonic() + 20
    while not product.ready() and time.monotonic() < deadline:
        time.sleep(0.1)
    check(seen, window)
    assert seen["opens"] == 2
    assert 0 < seen["cutAt"] < len(seen["events"])
    assert not seen["renewed"], "the browser did it by itself"


def test_an_origin_that_is_not_named_reads_nothing(window: Window) -> None:
    other = window.page.origin.replace("127.0.0.1", "localhost")
    seen = window("whole", origin=other)
    assert (seen["events"], seen["opens"], seen["closed"]) == ([], 0, True)


def test_a_page_posts_with_a_key(window: Window, key: str) -> None:
    seen = window("post", key=key, say=SAY)
    assert seen["text"] == SAID
    assert seen["requestId"].startswith("req_")
    assert (seen["refused"]["status"], seen["refused"]["type"]) == (401, "authentication_error")
    assert seen["cancelled"] == 200
