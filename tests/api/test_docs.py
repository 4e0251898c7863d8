"""The page at /docs/."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from django.contrib.staticfiles import finders
from django.test import Client

from api.docs.text import bounds_of, coloured, prose, type_of
from api.openapi.document import document
from common.errors import ApiError
from tests.environment import ROOT


class Page(HTMLParser):
    """What a page links to, loads, and has names for."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.ids: list[str] = []
        self.inline: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id":
                self.ids.append(str(value))
            elif name == "style" or name.startswith("on"):
                self.inline.append(f"{tag} {name}")
            elif name == "src" or (tag, name) == ("link", "href"):
                self.loads.append(str(value))
            elif name == "href":
                self.links.append(str(value))
        if tag == "style" or (tag == "script" and "src" not in dict(attrs)):
            self.inline.append(tag)


@pytest.fixture
def html(client: Client) -> str:
    return client.get("/docs/").content.decode()


def test_it_works(client: Client) -> None:
    r = client.get("/docs/")
    assert (r.status_code, r.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "http://testserver/v1/messages" in r.content.decode()


def test_it_shows_every_operation_object_and_error(html: str) -> None:
    ids = Page(html).ids
    for methods in document()["paths"].values():
        assert {operation["operationId"] for operation in methods.values()} <= set(ids)
    assert document()["components"]["schemas"].keys() <= set(ids)
    assert ApiError.kind in html
    assert len(set(ids)) == len(ids)


def test_every_link_leads_somewhere(html: str) -> None:
    page = Page(html)
    assert {link[1:] for link in page.links if link.startswith("#")} <= set(page.ids)
    assert {link for link in page.links if not link.startswith("#")} == {"/v1/openapi.json"}


def test_nothing_is_inline_or_of_another_host(client: Client, html: str) -> None:
    page = Page(html)
    assert page.inline == []
    assert page.loads
    for path in page.loads:
        assert finders.find(path.removeprefix("/static/")) is not None
    policy = client.get("/docs/").headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    for file in (ROOT / "platform/api/static/docs").iterdir():
        assert not re.search(r"https?://|@import", file.read_text())


def test_hints_are_listed(html: str) -> None:
    assert "cache_control, metadata, service_tier" in html


def test_it_is_only_to_read(client: Client) -> None:
    assert client.post("/docs/").status_code == 405
    assert client.get("/docs").headers["location"] == "/docs/"


def test_prose_is_escaped() -> None:
    assert prose("a `<b>` & c") == "a <code>&lt;b&gt;</code> &amp; c"


def test_json_is_coloured() -> None:
    html = coloured('{"a":"b <i>","c":true}')
    assert html == (
        '{<span class="key">&quot;a&quot;</span>:<span class="text">&quot;b &lt;i&gt;&quot;</span>,'
        '<span class="key">&quot;c&quot;</span>:<span class="word">true</span>}'
    )


@pytest.mark.parametrize(
    ("schema", "kind", "bounds"),
    [
        ({"type": "integer", "minimum": 1, "default": 5}, "integer", "at least 1, default 5"),
        ({"anyOf": [{"type": "number", "maximum": 2}, {"type": "null"}]}, "number or null", "at most 2"),
        ({"type": ["string", "null"], "format": "date-time"}, "time or null", ""),
        ({"type": "array", "items": {"$ref": "#/x/A"}}, "list of A", ""),
        ({"enum": ["a", None]}, '"a" or null', ""),
        ({"const": False}, "false", ""),
        ({}, "any", ""),
    ],
)
def test_types_are_told(schema: dict[str, object], kind: str, bounds: str) -> None:
    told = re.sub(r"<[^>]+>", "", type_of(schema)).replace("&quot;", '"')
    assert (told, bounds_of(schema)) == (kind, bounds)
