"""The demo page in a browser: to the end, stopped, cut, refused; what models write stays text; on a phone's width."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import httpx
import pytest

from tests.clients.conftest import SAID, SAY
from tests.clients.driving import Browser
from tests.e2e.conftest import Product

pytestmark = pytest.mark.clients

ANSWER = "article.assistant:last-child"
MARKUP = '<img src=x onerror="document.title = 1"> & <b>bold</b>'

# The first source is given up by the browser in the middle, the second is refused.
BROKEN_SOURCES = """(() => {
    const made = (window.made = []);
    window.EventSource = class extends EventSource {
        constructor(url) {
            made.push(url);
            super(made.length === 2 ? "/v1/streams/none" : url);
            if (made.length === 1) setTimeout(() => this.break(), 1000);
        }
        break() {
            this.close();
            this.dispatchEvent(new Event("error"));
        }
    };
})()"""


class Demo(Browser):
    """The page."""

    key = ""

    def open(self, *, connect: bool = True, width: int = 1280) -> None:
        self("setViewportSize", {"width": width, "height": 800})
        self("goto", self.origin + "/demo/")
        if connect:
            self.connect(self.key)
            self("waitForSelector", "#composer:not([hidden])")

    def connect(self, key: str) -> None:
        self("fill", "#key", key)
        self("press", "#key", "Enter")

    def ask(self, text: str) -> None:
        self("fill", "#prompt", text)
        self("press", "#prompt", "Enter")

    def reaches(self, state: str) -> None:
        self("waitForSelector", f"#state[data-state={state}]")

    def reads_event(self, number: int) -> None:
        self("waitForSelector", f'#event-list .id:text-is("{number}")')

    def text(self) -> str:
        """The last answer, as the page shows it."""
        return str(self("textContent", f"{ANSWER} .text"))

    def note(self) -> str:
        return str(self("textContent", f"{ANSWER} .note"))

    def ids(self) -> list[int]:
        """The ids of the events in the log, in the order of its rows."""
        found = self("evaluate", "[...document.querySelectorAll('#event-list .id')].map((id) => id.textContent)")
        return [int(text) for text in found if text]

    def message(self) -> str:
        """The last answer, as the server has it."""
        url = f"{self.origin}/v1/streams/{self('getAttribute', ANSWER, 'data-message')}/message"
        return str(httpx.get(url, headers={"x-api-key": self.key}).json()["content"][0]["text"])


@pytest.fixture(scope="module")
def browsing(node: str, browser: str, product: Product, key: str) -> Iterator[Demo]:
    with Demo.start(node, browser, product.url) as made:
        made.key = key
        yield made


@pytest.fixture
def demo(browsing: Demo) -> Iterator[Demo]:
    """The page, which complains of nothing and loads nothing of another host; a test empties what it expects."""
    yield browsing
    assert browsing("complaints") == []


def test_a_chat_of_two_turns(demo: Demo) -> None:
    demo.open()
    demo.ask(SAY)
    demo.reaches("done")
    assert demo.text() == SAID == demo.message()
    assert demo.ids() == list(range(1, len(demo.ids()) + 1))
    assert demo("textContent", "#event-list li:last-child .type") == "message_stop"
    assert demo("textContent", "#ttft").endswith(" ms")
    assert float(demo("textContent", "#rate")) > 0

    demo.ask("And then?")
    demo.reaches("streaming")
    demo.reaches("done")
    assert demo.text() == demo.message()
    assert demo("evaluate", "document.querySelectorAll('article').length") == 4


def test_stop(demo: Demo) -> None:
    demo.open()
    demo.ask("Write a long story.")
    demo.reaches("streaming")
    demo("press", "#prompt", "Escape")
    demo.reaches("done")
    assert demo.note().startswith("Stopped")
    assert demo.text() == demo.message()


def test_it_resumes_when_its_gateway_dies(demo: Demo, product: Product) -> None:
    demo.open()
    demo.ask("Write a short story about a lighthouse keeper.")
    demo.reads_event(30)
    for pid in product.processes("manage.py gateway"):
        os.kill(pid, signal.SIGKILL)
    demo.reaches("lost")
    demo.reaches("done")
    assert demo.text() == demo.message()
    assert demo.ids() == list(range(demo.ids()[0], demo.ids()[0] + len(demo.ids())))
    assert "resumed once" in demo.note()
    demo("complaints")  # of the connections that failed


def test_it_makes_a_new_source_where_the_browser_gives_up(demo: Demo) -> None:
    """As after a 503 of a proxy: the source is closed, and the page knows no status."""
    demo.open()
    demo("evaluate", BROKEN_SOURCES)
    demo.ask("Write a short story about a lighthouse keeper.")
    demo.reaches("done")
    assert demo.text() == demo.message()
    first, *later = demo("evaluate", "window.made")
    assert len(later) == 2, "the second was refused"
    assert all(url.startswith(f"{first}&last_event_id=") for url in later)
    demo("complaints")  # of the refusal


def test_what_a_model_writes_stays_text(demo: Demo) -> None:
    demo.open()
    demo.ask(f"SLUICE-SAY: {MARKUP}")
    demo.reaches("done")
    assert demo.text() == MARKUP
    assert demo("evaluate", "document.querySelectorAll('#turns img, #turns b, #event-list img').length") == 0


def test_a_key_that_is_none(demo: Demo) -> None:
    demo.open(connect=False)
    demo.connect("sk-sluice-nobody")
    demo("waitForSelector", "#key-problem:not([hidden])")
    assert "createkey" in demo("textContent", "#key-problem")
    assert len(demo("complaints")) == 1, "the 401"


def test_a_request_that_is_refused_keeps_its_text(demo: Demo) -> None:
    demo.open()
    demo("fill", "#limit", "999999")
    demo.ask("Hello")
    demo.reaches("failed")
    assert "max_tokens" in demo("textContent", f"{ANSWER} .problem")
    assert demo("inputValue", "#prompt") == "Hello"
    assert len(demo("complaints")) == 1, "the 400"


def test_a_key_is_kept_only_if_asked(demo: Demo, key: str) -> None:
    demo.open()
    assert demo("evaluate", "localStorage.length + sessionStorage.length") == 0
    demo("reload")
    demo("check", "#keep")
    demo.connect(key)
    demo("waitForSelector", "#composer:not([hidden])")
    demo("reload")
    demo("waitForSelector", "#composer:not([hidden])")
    demo("click", "#change")
    assert demo("isVisible", "#key")
    assert demo("evaluate", "localStorage.length + sessionStorage.length") == 0


def test_on_a_phone(demo: Demo) -> None:
    demo.open(width=390)
    demo.ask(SAY)
    demo.reaches("done")
    assert demo("evaluate", "document.documentElement.scrollWidth") == 390
    demo("click", "#events summary")
    assert demo("isVisible", "#event-list")
    assert demo("isVisible", "#send")
