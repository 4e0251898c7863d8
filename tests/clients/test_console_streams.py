"""The page of active streams in a browser: rows come and go, hidden it is silent, filters hold, cancelling works."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest
import redis

from console.live.table import Message
from inference.protocol import keys
from tests.clients.operating import Operator
from tests.console.live.rows import a_row
from tests.e2e.conftest import Product, a_body

pytestmark = [pytest.mark.clients, pytest.mark.timeout(300)]

LIVE = "#live[data-state={}]"
HIDE = """(hidden) => {
    Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
}"""


LEAVING = """(async () => {
    const [states, pauses, sources, later] = [[], [], [], setTimeout];
    window.setTimeout = (act, ms) => ms > 10_000 ? 0 : (pauses.push(ms), later(act, 0));
    window.EventSource = class extends EventTarget {
        constructor() { super(); sources.push(this); }
        close() {}
        hear(name) { this.dispatchEvent(new MessageEvent(name, { data: "{}" })); }
    };
    const answers = [
        () => new Response("This server is going away.", { status: 503, headers: { "retry-after": "2" } }),
        () => { throw new TypeError("no connection"); },
        () => new Response(""),
        () => new Response("Log in.", { status: 403 }),
    ];
    window.fetch = async () => answers.shift()();
    const until = async (done) => { while (!done()) await new Promise((go) => later(go, 1)); };
    new Feed("/", {
        onWhole: () => states.push("live"),
        onState: (state, why) => states.push(why ? `${state}: ${why}` : state),
    });
    sources[0].hear("leaving");
    await until(() => sources.length === 2);
    sources[1].hear("whole");
    sources[1].hear("error");
    await until(() => states.includes("over"));
    return [states, pauses];
})()"""


NO_ANSWER = """(async () => {
    const [states, later] = [[], setTimeout];
    window.setTimeout = (act) => later(act, 0);
    window.EventSource = class extends EventTarget { close() {} };
    window.fetch = (url, { signal }) => new Promise((_, fail) => (signal.onabort = () => fail(signal.reason)));
    new Feed("/", { onState: (state) => states.push(state) });
    while (states.filter((state) => state === "lost").length < 3) await new Promise((go) => later(go, 1));
    Object.defineProperty(document, "hidden", { value: true, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
    return states;
})()"""


class Live(Operator):
    """The page, and who looks at it."""

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
    with Live.at(product, node, browser, "olga") as live:
        yield live


@pytest.fixture
def live(browsing: Live) -> Iterator[Live]:
    """The page, which complains of nothing; a test empties what it expects."""
    browsing("complaints")
    yield browsing
    assert browsing("complaints") == []


@pytest.fixture
def store(product: Product) -> Iterator[redis.Redis]:
    store = redis.Redis.from_url(f"unix://{product.home}/redis/redis.sock")
    yield store
    store.close()


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


def test_hidden_it_closes_its_connection(live: Live, store: redis.Redis) -> None:
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


def test_a_selection_outlives_its_rows(live: Live, product: Product, key: str) -> None:
    live.open()
    with running(product, key) as first, running(product, key) as second:
        live.has(first)
        live.has(second)
        live("check", f"{row_of(first)} input")
        live("fill", "#q", second)
        live.lacks(first)
        assert live("textContent", "#num-selected") == "1 selected, 1 of them not shown here"
        live("reload")
        live.is_in("live")
        live("fill", "#q", "")
        live.has(first)
        assert live("isChecked", f"{row_of(first)} input")
        live("click", "#clear-selected")
        assert not live("isChecked", f"{row_of(first)} input")
        assert live("isDisabled", "#cancel-selected")
        live("check", f"{row_of(first)} input")
        live("fill", "#q", second)
        live.lacks(first)
        live("check", "#all")
        live("click", "#cancel-selected")
        assert live("textContent", "h1") == "Cancel 2 streams?"
        live("click", "input.default")
        live.is_in("live")
        live.lacks(first)
        live.lacks(second)
        assert live("textContent", "#num-selected") == ""


def test_what_was_selected_and_has_ended_is_forgotten(live: Live, product: Product, key: str) -> None:
    live.open()
    with running(product, key) as first:
        live.has(first)
        live("check", f"{row_of(first)} input")
        assert live("textContent", "#num-selected") == "1 selected"
    live.lacks(first)
    assert live("textContent", "#num-selected") == ""
    assert live("evaluate", "history.state.selected") == []


def test_rows_say_how_far_they_are(live: Live) -> None:
    live.open()
    rows = [
        a_row("msg_1", state="prefill", prefilled=40, came=2),
        a_row("msg_2", state="held", held=1200, came=1),
        a_row("msg_3", state="queued", turn=20.25),
        a_row("msg_4", state="queued", turn=10.5, came=9000),
        a_row("msg_5", state="queued", turn=10.5, came=9000, model="n"),
    ]
    table = {"at": 9000, "total": 5, "queues": {"m": 1012, "n": 1}, "rows": [[i, *row] for i, row in enumerate(rows)]}
    act = "rows.replace(table); draw(); [...document.querySelectorAll('#rows .state')].map((one) => one.textContent)"
    assert live("evaluate", f"const table = {json.dumps(table)}; {act}") == [
        "held by safety (1,200)", "prefill 40 %", "queued, 1st of 1,012", "queued, 1st of 1", "queued, 2nd of 1,012",
    ]  # fmt: skip


@pytest.mark.parametrize("facts", ['"shape": "0:id", ', ""])
def test_a_page_of_another_version_reloads_itself_once(live: Live, store: redis.Redis, facts: str) -> None:
    live.open("?q=alice")
    other = Message("whole", 1, f'event: whole\ndata: {{{facts}"rows": [[1, "msg_1"]]}}\n\n'.encode())
    live("evaluate", "document.body.dataset.made = 'before'")
    store.publish(keys.TABLE, other.encode())
    live("waitForSelector", "body:not([data-made])")
    live.is_in("live")
    assert live("evaluate", "location.search") == "?q=alice"
    tried = "0:id" if facts else "undefined"
    live("evaluate", f"document.body.dataset.made = 'before'; sessionStorage.setItem(RELOADED, '{tried}')")
    store.publish(keys.TABLE, other.encode())
    live.is_in("outdated")
    live.is_in("live")
    assert live("evaluate", "document.body.dataset.made") == "before"


def test_a_gateway_that_goes_away_is_left_alone_for_a_while(live: Live) -> None:
    live.open()
    states, pauses = live("evaluate", LEAVING)
    assert states == ["opening", "leaving", "refused: This server is going away.", "lost", "live", "lost", "over"]
    for pause, least in zip(pauses, (1000, 2000, 4000, 1000), strict=True):
        assert least <= pause < 1.25 * least
    longest = live("evaluate", "Array.from({ length: 20 }, (_, tries) => pauseMs(tries, 60_000))")
    assert 24_000 <= min(longest) <= max(longest) <= 30_000


def test_a_server_that_does_not_answer_is_asked_again(live: Live) -> None:
    live.open()
    assert live("evaluate", NO_ANSWER)[:4] == ["opening", "lost", "lost", "lost"]


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
