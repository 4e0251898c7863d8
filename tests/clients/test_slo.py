"""The pages of SLOs and of latency in a browser: under the content policy, in the dark, on a phone, kept fresh."""

from __future__ import annotations

import time
from collections.abc import Iterator

import httpx
import pytest

from tests.clients.conftest import SAY
from tests.clients.operating import Operator
from tests.e2e.conftest import Product

pytestmark = [pytest.mark.clients, pytest.mark.timeout(300)]

SLO, LATENCY = "/admin/console/slo/?window=15m", "/admin/console/latency/?window=15m"
ROLLED_UP_S = 60.0  # after which a message has to be in the charts
HISTOGRAM = "[data-chart=ttft-histogram]"
PICTURE = f"document.querySelector('{HISTOGRAM} canvas').toDataURL()"
INK = f"""(() => {{
    const canvas = document.querySelector("{HISTOGRAM} canvas");
    const {{ data }} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    return data.filter((value, place) => place % 4 === 3 && value > 0).length;
}})()"""
MINUTE_LATER = """(() => {
    const now = Date.now;
    Date.now = () => now() + 61000;
    document.dispatchEvent(new Event("visibilitychange"));
    Date.now = now;
})()"""
UNTIL = """new Promise((done, fail) => {
    const look = () => ((%s) ? done() : requestAnimationFrame(look));
    setTimeout(() => fail(new Error("it never came true")), 15000);
    look();
})"""


class Watcher(Operator):
    """Someone who looks at charts."""

    def waits_until(self, condition: str) -> None:
        """Wait for what a script says; Playwright's own way to do it breaks the content policy."""
        self("evaluate", UNTIL % condition)


@pytest.fixture(scope="module")
def browsing(node: str, browser: str, product: Product, key: str) -> Iterator[Watcher]:
    """Someone who is logged in where messages were served, and rolled up."""
    body = {"model": "default", "max_tokens": 40, "stream": True, "messages": [{"role": "user", "content": SAY}]}
    for _ in range(3):
        response = httpx.post(f"{product.url}/v1/messages", json=body, headers={"x-api-key": key}, timeout=60)
        assert response.status_code == 200
    with Watcher.at(product, node, browser, "op") as made:
        give_up = time.monotonic() + ROLLED_UP_S
        while not all(made.sees(f"[data-chart={name}] canvas") for name in ("ttft-histogram", "tokens")):
            assert time.monotonic() < give_up, "nothing was rolled up"
            made.visit(SLO)
        yield made


@pytest.fixture
def watcher(browsing: Watcher) -> Iterator[Watcher]:
    """Someone whose browser complains of nothing: no violation of the policy, no error, no other host."""
    browsing("complaints")
    yield browsing
    assert browsing("complaints") == []


def test_charts_are_drawn(watcher: Watcher) -> None:
    watcher.visit(SLO)
    assert watcher.sees(".slo-plot:not([hidden])") == watcher.sees(".slo-plot canvas") >= 8
    assert watcher.sees(".slo-plot:not([hidden]) ~ div .slo-empty") == 0
    assert watcher("evaluate", INK) > 1000, "it is not blank"


def test_they_are_drawn_anew_in_the_dark(watcher: Watcher) -> None:
    watcher.visit(SLO)
    light = watcher("evaluate", PICTURE)
    watcher("emulateMedia", {"colorScheme": "dark"})
    watcher.waits_until(f"{PICTURE} !== '{light}'")
    dark = watcher("evaluate", PICTURE)
    watcher("click", ".theme-toggle >> visible=true")  # from the system's choice to light
    watcher.waits_until(f"{PICTURE} !== '{dark}'")
    watcher("evaluate", "localStorage.clear()")


@pytest.mark.parametrize("path", [SLO, LATENCY])
@pytest.mark.parametrize("colours", ["light", "dark"])
def test_on_a_phone(watcher: Watcher, path: str, colours: str) -> None:
    watcher.visit(path, width=390, colours=colours)
    assert watcher("evaluate", "document.documentElement.scrollWidth") == 390
    assert watcher.sees(".slo-plot canvas") > 0
    assert watcher("evaluate", "[...document.querySelectorAll('.slo-plot canvas')].every((c) => c.clientWidth <= 360)")


def test_they_are_as_wide_as_there_is_room(watcher: Watcher) -> None:
    watcher.visit(SLO, width=1280)
    watcher("setViewportSize", {"width": 390, "height": 800})
    watcher.waits_until(f"document.querySelector('{HISTOGRAM} canvas').clientWidth < 340")


def test_a_table_opens_by_keyboard(watcher: Watcher) -> None:
    watcher.visit(SLO)
    watcher("focus", "#ttft-histogram summary")
    watcher("press", "#ttft-histogram summary", "Enter")
    assert watcher("isVisible", "#ttft-histogram-table tbody td")


def test_the_page_is_kept_fresh(watcher: Watcher) -> None:
    watcher.visit(SLO)
    watcher("click", "#ttft-time summary")
    watcher("evaluate", "document.querySelector('#updated').textContent = 'old'")  # it may be the same second
    watcher("evaluate", MINUTE_LATER)
    watcher.waits_until("document.querySelector('#updated').textContent.startsWith('Updated ')")
    assert watcher.sees(".slo-plot:not([hidden])") == watcher.sees(".slo-plot canvas") >= 8, "each is drawn once"
    assert watcher("isVisible", "#ttft-time-table"), "what was open is still open"


def test_it_says_when_it_is_not_fresh(watcher: Watcher) -> None:
    watcher.visit(SLO)
    watcher("evaluate", "window.fetch = () => Promise.reject(new TypeError('away'))")
    watcher("evaluate", MINUTE_LATER)
    watcher.waits_until("document.querySelector('#freshness').textContent.endsWith('nothing answers. Trying again.')")


def test_the_slowest_request_leads_to_its_waterfall(watcher: Watcher) -> None:
    watcher.visit(LATENCY)
    assert watcher.sees(".slo-shares rect") >= 5
    watcher("click", "#slowest tbody a")
    watcher("waitForSelector", ".waterfall rect")
