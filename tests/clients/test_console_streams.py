"""The page of active streams in a browser: rows come and go, hidden it is silent, filters hold, cancelling works."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest
import redis

from inference.protocol import keys
from tests.clients.driving import Browser
from tests.e2e.conftest import Product, a_body

pytestmark = [pytest.mark.clients, pytest.mark.timeout(300)]

PASSWORD = "a-long-pass-phrase"
MAKE_USER = f"from django.contrib.auth.models import User; User.objects.create_superuser('olga', password='{PASSWORD}')"
LIVE = "#live[data-state={}]"
HIDE = """(hidden) => {
    Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
}"""


class Live(Browser):
    """The page, and who looks at it."""

    def log_in(self) -> None:
        self("goto", f"{self.origin}/admin/login/?next=/admin/console/streams/")
        self("fill", "#id_username", "olga")
        self("fill", "#id_password", PASSWORD)
        self("click", "[type=submit]")
        self("waitForSelector", "#streams")

    def open(self, query: str = "", *, width: int = 1400) -> None:
        self("setViewportSize", {"width": width, "height": 800})
        self("goto", f"{self.origin}/admin/console/streams/{query}")
        self.is_in("live")

    def is_in(self, state: str) -> None:
        self("waitForSelector", LIVE.format(state))

    def hide(self, *, hidden: bool) -> None:
        value = "true" if hidden else "false"
        self("evaluate", f"({HIDE})({value})")

    def has(self, message_id: str) -> None:
        self("waitForSelector", row_of(message_id))

    def lacks(self, message_id: str) -> None:
        self("waitForSelector", row_of(message_id), {"state": "detached"})

    def changes(self, place: str) -> None:
        self("waitForSelector", f'{place}:not(:text-is("{self("textContent", place)}"))')

    def ids(self) -> list[str]:
        return list(self("evaluate", "[...document.querySelectorAll('#rows tr')].map((row) => row.dataset.id)"))


def row_of(message_id: str) -> str:
    return f"#rows tr[data-id={message_id}]"


@pytest.fixture(scope="module")
def browsing(node: str, browser: str, product: Product) -> Iterator[Live]:
    product.manage("shell", "-c", MAKE_USER)
    with Live.start(node, browser, product.url) as live:
        live.log_in()
        yield live


@pytest.fixture
def live(browsing: Live) -> Iterator[Live]:
    """The page, which complains of nothing; a test empties what it expects."""
    browsing("complaints")
    yield browsing
    assert browsing("complaints") == []


@contextmanager
def running(product: Product, key: str) -> Iterator[str]:
    """A stream that is read until the block is left; its id."""
    body = a_body("Write a very long story.", max_tokens=4000) | {"stream": True}
    with httpx.stream(
        "POST", f"{product.url}/v1/messages", json=body, headers={"x-api-key": key}, timeout=60
    ) as response:
        lines = response.iter_lines()
        message_id = next(line for line in lines if '"id":"msg_' in line).partition('"id":"')[2].partition('"')[0]
        reading = threading.Thread(target=_read, args=(lines,))
        reading.start()
        try:
            yield message_id
        finally:
            httpx.delete(f"{product.url}/v1/streams/{message_id}", headers={"x-api-key": key}, timeout=60)
            reading.join()


def _read(lines: Iterator[str]) -> None:
    for _ in lines:
        pass


def test_rows_come_and_go(live: Live, product: Product, key: str) -> None:
    live.open()
    assert live("textContent", "#nothing").startswith("Nothing is open.")
    with running(product, key) as first:
        live.has(first)
        live("waitForSelector", f"{row_of(first)} .state[data-state=decoding]")
        tokens = f"{row_of(first)} [data-column=tokens]"
        live.changes(tokens)
        assert live("textContent", f"{row_of(first)} [data-column=key]") == "clients"
        with running(product, key) as second:
            live.has(second)
            assert live.ids() == [first, second]
        live.lacks(second)
    live.lacks(first)
    assert live("isVisible", "#nothing")


def test_hidden_it_closes_its_connection(live: Live, product: Product) -> None:
    store = redis.Redis.from_url(f"unix://{product.home}/redis/redis.sock")
    live.open()
    live.hide(hidden=True)
    live.is_in("paused")
    for _ in range(100):
        if store.pubsub_numsub(keys.TABLE) == [(keys.TABLE.encode(), 0)]:
            break
        live("waitForTimeout", 50)
    assert store.pubsub_numsub(keys.TABLE) == [(keys.TABLE.encode(), 0)]
    live.hide(hidden=False)
    live.is_in("live")
    store.close()


def test_filter_and_order_hold_while_it_is_live(live: Live, product: Product, key: str) -> None:
    live.open()
    with running(product, key) as first, running(product, key) as second:
        live.has(second)
        live("fill", "#q", first)
        live.lacks(second)
        assert live("evaluate", "location.search") == f"?q={first}"
        live("waitForTimeout", 2500)
        assert live.ids() == [first]
        live("fill", "#q", "")
        live.has(second)
        live("click", "th[data-column=age] a")
        live("click", "th[data-column=age] a")
        assert live.ids() == [second, first]
        live("reload")
        live.is_in("live")
        assert live.ids() == [second, first], "the address has it"


def test_a_row_that_is_moved_keeps_the_focus(live: Live, product: Product, key: str) -> None:
    with running(product, key) as first, running(product, key) as second:
        live.open("?o=nonsense&page=-5")  # which count as not given
        live.has(second)
        assert live.ids() == [first, second]
        live("focus", f"{row_of(second)} input")
        live("evaluate", "wishFor({ sort: 'age' })")
        assert live.ids() == [second, first]
        assert live("evaluate", "document.activeElement.value") == second


def test_cancel(live: Live, product: Product, key: str) -> None:
    live.open()
    with running(product, key) as first, running(product, key) as second:
        live.has(first)
        live.has(second)
        live("check", f"{row_of(first)} input")
        live("waitForTimeout", 1500)
        assert live("isChecked", f"{row_of(first)} input"), "while it is live"
        live("click", "#cancel-selected")
        live("click", "input.default")
        assert live("textContent", ".messagelist").strip().endswith("has ended: cancelled.")
        assert "cancelled" in live("textContent", "#stream")
        live.open()
        live.has(second)
        live.lacks(first)
        live("click", f"{row_of(second)} .act button")
        assert second in live("textContent", "h1")
        live("click", "input.default")
        live.open()
        live.lacks(second)


def test_one_stream_is_followed(live: Live, product: Product, key: str) -> None:
    live.open()
    with running(product, key) as first:
        live.has(first)
        live("click", f"{row_of(first)} a")
        live("waitForSelector", "#stream")
        live.changes(".numbers div:first-child dd")
        assert "Its first tokens were released" in live("textContent", ".story")
    live("waitForSelector", "#stream[data-over]")
    assert live("isVisible", "text=Its record")


def test_on_a_phone_in_the_dark(live: Live, product: Product, key: str) -> None:
    live("emulateMedia", {"colorScheme": "dark"})
    live.open(width=390)
    with running(product, key) as first:
        live.has(first)
        assert live("evaluate", "document.documentElement.scrollWidth") == 390
        colour = live("evaluate", "getComputedStyle(document.body).backgroundColor")
        assert max(int(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(",")) < 60
        live("click", f"{row_of(first)} a")
        live("waitForSelector", "#stream")
        assert live("evaluate", "document.documentElement.scrollWidth") == 390
    live("emulateMedia", {"colorScheme": "light"})
