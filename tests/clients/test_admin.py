"""The admin and the console in a browser: all of their pages keep to the content policy, and work on a phone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import parse_qsl, urlsplit

import httpx
import pytest

from tests.clients.conftest import SAY
from tests.clients.operating import Operator
from tests.e2e.conftest import Product

pytestmark = [pytest.mark.clients, pytest.mark.timeout(600)]

SECRET = "SLUICE-SAY: write to bob@example.org"  # the standard policy flags it
LINKS = "[...document.links].map((link) => link.href)"
PHONE = 390
COLOURS = "['color', 'backgroundColor'].map((name) => getComputedStyle(document.body)[name]).join()"
CLIPPED = """[...document.querySelectorAll("#content table")].filter((table) => table.checkVisibility())
    .map((table) => table.parentElement).filter((frame) => frame.scrollWidth > frame.clientWidth)
    .map(({ id, className }) => id || className)"""
KEEP_FETCH = "window.kept = window.fetch"
SEEN_AT = "((node) => [node, 0, node, 5])(document.querySelector('.seen-at time').firstChild)"
HIDE = """(() => {
    Object.defineProperty(document, "hidden", { value: %s, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
})()"""
NO_PAGES = re.compile(r"/(?:export|logout|jsi18n)/")


def kind_of(url: str) -> tuple[str, tuple[str, ...]]:
    """Return what pages have in common that differ only in the row, the order or the filter's value."""
    parts = urlsplit(url)
    path = re.sub(r"/[^/]+/(change|delete|history|drain|cancel|password)/", r"/*/\1/", parts.path)
    path = re.sub(r"/(?:msg|vm|key|org)[_-][^/]+", "/*", path)
    return path, tuple(sorted({name for name, _ in parse_qsl(parts.query) if name not in ("p", "o")}))[:1]


class Staff(Operator):
    """Someone who goes everywhere."""

    def links(self) -> list[str]:
        """The admin's pages that this one leads to."""
        found = (str(link).partition("#")[0] for link in self("evaluate", LINKS))
        return [link for link in found if link.startswith(f"{self.origin}/admin/") and not NO_PAGES.search(link)]

    def overflows(self) -> bool:
        return bool(self("evaluate", "document.documentElement.scrollWidth > innerWidth"))


@pytest.fixture(scope="module")
def browsing(node: str, browser: str, product: Product, key: str) -> Iterator[Staff]:
    """An operator who is logged in where there is something of everything."""
    headers = {"x-api-key": key}
    for text in (SAY, SECRET):
        body = {"model": "default", "max_tokens": 40, "messages": [{"role": "user", "content": text}]}
        assert httpx.post(f"{product.url}/v1/messages", json=body, headers=headers).status_code == 200
    batch = {"requests": [{"custom_id": "one", "params": body}]}
    assert httpx.post(f"{product.url}/v1/messages/batches", json=batch, headers=headers).status_code == 200
    with Staff.at(product, node, browser, "root") as made:
        yield made


@pytest.fixture
def staff(browsing: Staff) -> Iterator[Staff]:
    """The operator, whose browser complains of nothing; a test empties what it expects."""
    browsing("complaints")
    yield browsing
    assert browsing("complaints") == []


def test_every_page_keeps_to_the_policy_and_is_open_to_all(staff: Staff) -> None:
    """To those as well who go by keyboard, hear the page, or need contrast."""
    todo, seen, barriers = [f"{staff.origin}/admin/"], set(), {}
    while todo:
        url = todo.pop(0)
        if kind_of(url) in seen:
            continue
        seen.add(kind_of(url))
        staff.visit(url)
        assert staff("complaints") == [], url
        if "/admin/auth/" not in url:  # which is all Django's
            barriers[url] = staff.barriers()
            staff("setViewportSize", {"width": PHONE, "height": 800})
            assert not staff.overflows(), url
        todo += staff.links()
    assert not {url: found for url, found in barriers.items() if found}
    paths = {path for path, _ in seen}
    for page in (
        *("/admin/accounts/apikey/", "/admin/accounts/apikey/add/", "/admin/accounts/apikey/*/change/"),
        *("/admin/accounts/organization/*/history/", "/admin/accounts/organization/*/change/", "/admin/auth/user/add/"),
        *("/admin/batches/batch/", "/admin/records/requestrecord/*/change/", "/admin/records/dailyusage/"),
        *("/admin/records/safetytrigger/", "/admin/safety/safetypolicy/*/change/", "/admin/safety/blocklist/add/"),
        *("/admin/console/streams/", "/admin/console/slo/", "/admin/console/latency/", "/admin/console/safety/"),
        *("/admin/console/workers/", "/admin/console/workers/*/drain/", "/admin/password_change/"),
    ):
        assert page in paths, page


@pytest.mark.parametrize(
    "path",
    ["/admin/", "/admin/console/workers/", "/admin/console/safety/", "/admin/accounts/apikey/add/", "/admin/login/"],
)
def test_on_a_phone(staff: Staff, path: str) -> None:
    staff.visit(path, width=PHONE)
    assert not staff.overflows()


@pytest.mark.parametrize("part", ["console/latency/?window=15m", "console/safety/", "batches/batch/"])
def test_tables_have_room_on_a_desk(staff: Staff, part: str) -> None:
    staff.visit(f"/admin/{part}")
    assert staff.sees("#content table") > 0
    assert staff("evaluate", CLIPPED) == []


def test_a_key_is_made_with_a_search_for_its_organisation(staff: Staff) -> None:
    """Select2, which makes elements of its own, and the page that shows a key once."""
    staff.visit("/admin/accounts/apikey/add/")
    staff("click", ".select2-selection")
    staff("fill", ".select2-search__field", "cli")
    staff("click", ".select2-results__option--selectable, .select2-results__option--highlighted")
    staff("fill", "#id_name", "made in a browser")
    staff("click", "[name=_save]")
    staff("waitForSelector", ".shown-key code")
    staff("click", "[data-copy]")


def test_a_policy_is_made_with_rows_that_scripts_add(staff: Staff) -> None:
    staff.visit("/admin/safety/blocklist/add/")
    staff("fill", "#id_name", "words")
    staff("fill", "#id_phrases", "never say this")
    staff("click", "[name=_save]")
    staff("waitForSelector", ".messagelist .success")

    staff.visit("/admin/safety/safetypolicy/add/")
    staff("fill", "#id_name", "mine")
    staff("click", ".add-row a")
    staff("waitForSelector", "#id_rules-0-action")
    staff("selectOption", "#id_blocklists_from", {"label": "words"})
    staff("click", "#id_blocklists_add, .selector-chooser .selector-add")
    assert staff("evaluate", "document.querySelector('#id_blocklists_to').options.length") == 1


def test_a_row_is_deleted(staff: Staff) -> None:
    staff.visit("/admin/auth/group/add/")
    staff("fill", "#id_name", "watchers")
    staff("click", "[name=_continue]")
    staff("click", ".deletelink")
    staff("click", "#content form [type=submit]")
    staff("waitForSelector", ".messagelist .success")


@pytest.mark.parametrize("part", ["streams/", "slo/", "latency/", "safety/", "workers/"])
@pytest.mark.parametrize(("colours", "width"), [("dark", 1280), ("light", PHONE), ("dark", PHONE)])
def test_the_console_is_open_to_all(staff: Staff, part: str, colours: str, width: int) -> None:
    staff.visit(f"/admin/console/{part}", width=width, colours=colours)
    assert staff.barriers() == []


@pytest.mark.parametrize(("system", "chosen"), [("dark", "light"), ("light", "dark")])
def test_a_theme_goes_before_the_systems(staff: Staff, system: str, chosen: str) -> None:
    staff.visit("/admin/console/workers/", colours=chosen)
    wanted = staff("evaluate", COLOURS)
    staff("evaluate", f"localStorage.setItem('theme', '{chosen}')")
    staff.visit("/admin/console/workers/", colours=system)
    found = staff("evaluate", COLOURS)
    staff("evaluate", "localStorage.clear()")
    assert found == wanted
    assert staff.barriers() == []


class TestRefreshing:
    """What a page shows that keeps itself up to date."""

    @pytest.fixture
    def workers(self, staff: Staff) -> Staff:
        staff.visit("/admin/console/workers/")
        return staff

    def is_refreshed(self, staff: Staff) -> None:
        before = staff("textContent", ".seen-at time")
        staff("waitForSelector", f'.seen-at time:not(:text-is("{before}"))')

    def says(self, staff: Staff, text: str) -> None:
        staff("waitForSelector", f'#freshness:text-matches("{text}")')

    def test_what_stays_is_not_touched(self, workers: Staff) -> None:
        """So that a click, between press and release, hits what it was meant for."""
        workers("focus", "#processes footer a")
        workers("evaluate", "window.pressed = document.activeElement; getSelection().selectAllChildren(window.pressed)")
        self.is_refreshed(workers)
        assert workers("evaluate", "document.activeElement === window.pressed && window.pressed.isConnected")
        assert workers("evaluate", "getSelection().toString()") == "Drain…"

    def test_rows_come_and_go(self, workers: Staff) -> None:
        """One before and one after that which has the focus; one that stays is the same."""
        workers("focus", "#processes footer a")
        add = "card.insertAdjacentHTML('{}', '<section class=card id=worker-{}><h3>Another</h3></section>')"
        before, after = add.format("beforebegin", "a"), add.format("afterend", "b")
        workers("evaluate", f"window.card = document.querySelector('.card'); {before}; {after}")
        self.is_refreshed(workers)
        assert workers.sees("#worker-a, #worker-b") == 0
        assert workers("evaluate", "window.card.isConnected && window.card.contains(document.activeElement)")
        workers("evaluate", "window.card.remove()")
        self.is_refreshed(workers)
        assert workers("evaluate", "document.querySelector('.card').id === window.card.id")

    def test_a_selection_keeps_its_place_where_text_changes(self, workers: Staff) -> None:
        workers("evaluate", "getSelection().setBaseAndExtent(..." + SEEN_AT + ")")
        self.is_refreshed(workers)
        assert workers("evaluate", "getSelection().toString()") == workers("textContent", ".seen-at time")[:5]

    def test_without_an_answer_it_says_so_until_there_is_one(self, workers: Staff) -> None:
        workers("evaluate", f"{KEEP_FETCH}; window.fetch = () => Promise.reject(new TypeError('away'))")
        self.says(workers, "Not up to date since [0-9:]{8} UTC: nothing answers. Trying again.")
        assert workers("getAttribute", "#freshness", "role") == "status"
        workers("evaluate", "window.fetch = window.kept")
        workers("waitForSelector", "#freshness:empty", {"state": "attached"})

    @pytest.mark.parametrize(("status", "said"), [(403, "You may no longer see this."), (404, "This is gone.")])
    def test_what_is_refused_is_not_asked_for_again(self, workers: Staff, status: int, said: str) -> None:
        answer = f"(window.asked = (window.asked ?? 0) + 1, new Response('', {{ status: {status} }}))"
        workers("evaluate", f"window.fetch = async () => {answer}")
        self.says(workers, said)
        workers("evaluate", "document.dispatchEvent(new Event('visibilitychange'))")
        workers("waitForTimeout", 3500)
        assert workers("evaluate", "window.asked") == 1

    def test_other_failures_are_told_and_tried_again(self, workers: Staff) -> None:
        workers("evaluate", f"{KEEP_FETCH}; window.fetch = async () => new Response('', {{ status: 502 }})")
        self.says(workers, "the server answered 502. Trying again.")

    def test_hidden_it_asks_nothing(self, workers: Staff) -> None:
        workers(
            "evaluate", f"{KEEP_FETCH}; window.asked = 0; window.fetch = (...a) => (window.asked++, window.kept(...a))"
        )
        workers("evaluate", HIDE % "true")
        workers("waitForTimeout", 3500)
        assert workers("evaluate", "window.asked") == 0
        workers("evaluate", HIDE % "false")
        self.is_refreshed(workers)


def test_what_is_not_there(staff: Staff) -> None:
    for path in ("/admin/nowhere/", "/admin/console/workers/none/drain/"):
        staff.visit(path)
        said = staff("complaints")
        assert len(said) == 1, said
        assert "404" in said[0]
