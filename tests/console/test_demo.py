"""The page at /demo/."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.contrib.staticfiles import finders
from django.test import Client

from tests.api.test_docs import Page
from tests.environment import ROOT

FOLDER = ROOT / "platform/console/static/console/demo"
INTO_HTML = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|\beval\b|new Function")


@pytest.fixture
def html(client: Client) -> str:
    return client.get("/demo/").content.decode()


def test_it_works(client: Client) -> None:
    r = client.get("/demo/")
    assert (r.status_code, r.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "Talk to a model." in r.content.decode()


def test_it_says_what_to_do_without_scripts(html: str) -> None:
    assert "curl http://testserver/v1/streams" in html
    assert re.search(r'id="unscripted"(?![^>]*hidden)', html)
    assert re.search(r'<form id="connect"[^>]*hidden', html)


def test_a_key_can_get_into_no_address(html: str) -> None:
    """A form that is sent without scripts has nothing to send: none of its fields has a name."""
    fields = re.findall(r"<(?:input|textarea|select)[^>]*>", html)
    assert fields
    assert not [field for field in fields if re.search(r"\sname=", field)]


def test_it_may_use_its_own_host_alone(client: Client, html: str) -> None:
    headers = client.get("/demo/").headers
    assert headers["content-security-policy"] == (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )
    assert headers["referrer-policy"] == "no-referrer"
    page = Page(html)
    assert page.inline == []
    assert page.loads
    for path in page.loads:
        assert finders.find(path.removeprefix("/static/")) is not None


@pytest.mark.parametrize("path", sorted(FOLDER.iterdir()), ids=lambda path: path.name)
def test_its_files_name_no_other_host_and_make_no_html_of_text(path: Path) -> None:
    text = path.read_text().replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?://|@import", text)
    assert not INTO_HTML.search(text)


def test_it_is_only_to_read(client: Client) -> None:
    assert client.post("/demo/").status_code == 405
    assert client.get("/demo").headers["location"] == "/demo/"
