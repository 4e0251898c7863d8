"""The admin and the console in a browser: all of their pages keep to the content policy, and work on a phone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import parse_qsl, urlsplit

import httpx
import pytest

from tests.clients.conftest import SAY
from tests.clients.driving import Browser
from tests.e2e.conftest import Product

pytestmark = [pytest.mark.clients, pytest.mark.timeout(600)]

PASSWORD = "a-long-pass-phrase"
MAKE_USER = f"from django.contrib.auth.models import User; User.objects.create_superuser('root', password='{PASSWORD}')"
SECRET = "SLUICE-SAY: write to bob@example.org"  # the standard policy flags it
LINKS = "[...document.links].map((link) => link.href)"
PHONE = 390
NO_PAGES = re.compile(r"/(?:export|logout|jsi18n)/")


def kind_of(url: str) -> tuple[str, tuple[str, ...]]:
    """Return what pages have in common that differ only in the row, the order or the filter's value."""
    parts = urlsplit(url)
    path = re.sub(r"/[^/]+/(change|delete|history|drain|cancel|password)/", r"/*/\1/", parts.path)
    path = re.sub(r"/(?:msg|vm|key|org)[_-][^/]+", "/*", path)
    return path, tuple(sorted({name for name, _ in parse_qsl(parts.query) if name not in ("p", "o")}))[:1]


class Staff(Browser):
    """A browser in the hands of an operator."""

    def log_in(self) -> None:
        self.visit("/admin/login/?next=/admin/")
        self("fill", "#id_username", "root")
        self("fill", "#id_password", PASSWORD)
        self("click", "[type=submit]")
        self("waitForSelector", "#logout-form")

    def visit(self, path: str, *, width: int = 1280) -> None:
        self("setViewportSize", {"width": width, "height": 800})
        self("goto", path if path.startswith("http") else self.origin + path)

    def links(self) -> list[str]:
        """The admin's pages that this one leads to."""
        found = (str(link).partition("#")[0] for link in self("evaluate", LINKS))
        return [link for link in found if link.startswith(f"{self.origin}/admin/") and not NO_PAGES.search(link)]

    def overflows(self) -> bool:
        return bool(self("evaluate", "document.documentElement.scrollWidth > innerWidth"))


@pytest.fixture(scope="module")
def browsing(node: str, browser: str, product: Product, key: str) -> Iterator[Staff]:
    """An operator who is logged in where there is something of everything."""
    product.manage("shell", "-c", MAKE_USER)
    headers = {"x-api-key": key}
    for text in (SAY, SECRET):
        body = {"model": "default", "max_tokens": 40, "messages": [{"role": "user", "content": text}]}
        assert httpx.post(f"{product.url}/v1/messages", json=body, headers=headers).status_code == 200
    batch = {"requests": [{"custom_id": "one", "params": body}]}
    assert httpx.post(f"{product.url}/v1/messages/batches", json=batch, headers=headers).status_code == 200
    with Staff.start(node, browser, product.url) as made:
        made.log_in()
        yield made


@pytest.fixture
def staff(browsing: Staff) -> Iterator[Staff]:
    """The operator, whose browser complains of nothing; a test empties what it expects."""
    browsing("complaints")
    yield browsing
    assert browsing("complaints") == []


def test_every_page_keeps_to_the_policy(staff: Staff) -> None:
    todo, seen = [f"{staff.origin}/admin/"], set()
    while todo:
        url = todo.pop(0)
        if kind_of(url) in seen:
            continue
        seen.add(kind_of(url))
        staff.visit(url)
        assert staff("complaints") == [], url
        todo += staff.links()
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


def test_the_workers_are_shown_anew(staff: Staff) -> None:
    staff.visit("/admin/console/workers/")
    before = staff("textContent", ".seen-at time")
    staff("focus", "#processes footer a")
    focused = staff("evaluate", "document.activeElement.id")
    staff("waitForSelector", f'.seen-at time:not(:text-is("{before}"))')
    assert focused
    assert staff("evaluate", "document.activeElement.id") == focused, "who goes by keyboard stays where they were"


def test_without_an_answer_what_is_shown_looks_old(staff: Staff) -> None:
    staff.visit("/admin/console/workers/")
    staff("evaluate", "window.fetch = () => Promise.reject(new TypeError('away'))")
    staff("waitForSelector", "#processes.stale")


def test_what_is_not_there(staff: Staff) -> None:
    for path in ("/admin/nowhere/", "/admin/console/workers/none/drain/"):
        staff.visit(path)
        said = staff("complaints")
        assert len(said) == 1, said
        assert "404" in said[0]
