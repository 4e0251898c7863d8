"""The list of active streams, and one of them."""

from __future__ import annotations

import html
import re
from datetime import UTC, datetime
from unittest.mock import patch

import pytest
import redis
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from console.live import views
from records.models import RequestRecord
from tests.conftest import Staff, Tenant
from tests.console.tools import begin, claim, end, queue

pytestmark = pytest.mark.django_db

PAGE = "/admin/console/streams/"
ROW = re.compile(r'<tr data-id="(\w+)">')


def text_of(client: Client, path: str = PAGE) -> str:
    """What a page says, without its tags."""
    r = client.get(path)
    assert r.status_code == 200, r
    return html.unescape(" ".join(re.sub(r"<[^>]+>", " ", r.content.decode()).split()))


def ids(client: Client, query: str = "") -> list[str]:
    return ROW.findall(client.get(PAGE + query).content.decode())


@pytest.mark.usefixtures("two")
class TestList:
    def test_it_works(self, admin_client: Client) -> None:
        text = text_of(admin_client)
        assert "msg_alice alice alpha m w-1 decoding 2" in text
        assert "msg_charlie charlie gamma m queued, 1st of 1 0" in text
        assert ids(admin_client) == ["msg_alice", "msg_charlie"]

    @pytest.mark.parametrize("query", ["?q=Alice", "?state=decoding", "?worker=w-1", "?organization=alpha"])
    def test_filters(self, admin_client: Client, query: str) -> None:
        assert ids(admin_client, query) == ["msg_alice"]
        assert "1 found" in text_of(admin_client, PAGE + query)

    def test_order(self, admin_client: Client) -> None:
        assert ids(admin_client, "?o=tokens") == ["msg_charlie", "msg_alice"]
        page = admin_client.get(PAGE + "?o=tokens&q=msg").content.decode()
        assert 'aria-sort="ascending"><a href="?o=-tokens&amp;q=msg"' in page

    def test_what_fits_nothing(self, admin_client: Client) -> None:
        assert "No open stream fits these filters." in text_of(admin_client, PAGE + "?q=nothing")

    def test_pages(self, admin_client: Client) -> None:
        with patch("console.live.listing.PAGE", 1):
            assert ids(admin_client, "?page=2") == ["msg_charlie"]
            assert "Page 1 of 2" in text_of(admin_client)
            assert 'id="after" href="?page=2"' in admin_client.get(PAGE).content.decode()

    def test_what_is_no_order_and_no_page_counts_as_not_given(self, admin_client: Client) -> None:
        page = admin_client.get(f"{PAGE}?o=nonsense&page=-5").content.decode()
        assert 'data-sort="" data-page="1"' in page, "for the script, too"
        assert 'data-sort="-age" data-page="1"' in admin_client.get(f"{PAGE}?o=-age&page=9").content.decode()

    def test_more_than_are_shown(self, admin_client: Client) -> None:
        with patch.object(views, "MOST", 1):
            text = text_of(admin_client)
        assert "2 open" in text
        assert "1 in all, are shown" in text
        assert ids(admin_client) == ["msg_alice", "msg_charlie"]

    def test_who_may_only_watch_has_no_buttons(self, staff: Staff) -> None:
        page = staff("view_streams").get(PAGE).content.decode()
        assert "msg_alice" in page
        assert "Cancel" not in page
        assert "checkbox" not in page

    def test_it_costs_few_queries(
        self, admin_client: Client, alice: Tenant, store: redis.Redis, django_assert_num_queries: DjangoAssertNumQueries
    ) -> None:
        with django_assert_num_queries(4):  # session, user, names
            admin_client.get(PAGE)
        more = {f"msg_{i}": None for i in range(30)}
        queue(store, *more, organization=alice.key.organization_id, key=alice.key.pk)
        with django_assert_num_queries(4):
            assert len(ids(admin_client)) == 32


def test_what_would_be_there_is_told(admin_client: Client, store: redis.Redis) -> None:
    assert "Nothing is open. Each message that waits" in text_of(admin_client)


def test_names_are_text(admin_client: Client, store: redis.Redis) -> None:
    queue(store, "msg_1", key="<b>x</b>")
    page = admin_client.get(PAGE).content.decode()
    assert "&lt;b&gt;x&lt;/b&gt;" in page
    assert "<b>x</b>" not in page


@pytest.mark.parametrize("path", [PAGE, f"{PAGE}msg_1/"])
def test_a_stranger_has_to_log_in(client: Client, store: redis.Redis, path: str) -> None:
    assert client.get(path).headers["location"].startswith("/admin/login/")


@pytest.mark.parametrize("path", [PAGE, f"{PAGE}msg_1/"])
def test_one_without_the_permission_is_refused(staff: Staff, store: redis.Redis, path: str) -> None:
    assert staff("view_slo").get(path).status_code == 403


@pytest.mark.parametrize("path", [PAGE, f"{PAGE}msg_1/"])
def test_redis_that_is_away_is_told_of(admin_client: Client, path: str) -> None:
    with patch.object(views, "connection", side_effect=redis.ConnectionError("refused")):
        assert "Redis does not answer: refused." in text_of(admin_client, path)


@pytest.mark.usefixtures("two")
class TestOne:
    def test_it_works(self, admin_client: Client) -> None:
        text = text_of(admin_client, f"{PAGE}msg_alice/")
        for shown in (
            "decoding", "Tokens 2", "alpha", "alice", "Worker w-1", "Gateway nobody reads it", "Prompt 3 tokens",
            "Its request came", "It was put into the queue", "A worker took it by w-1",
            "Its first tokens were released", "Now: decoding", "Its record is written after its end.",
            "Cancel this stream",
        ):  # fmt: skip
            assert shown in text, shown

    def test_its_place_in_the_queue(self, admin_client: Client) -> None:
        assert "queued, 1st of 1" in text_of(admin_client, f"{PAGE}msg_charlie/")

    def test_after_its_end_its_log_tells(self, admin_client: Client, store: redis.Redis) -> None:
        name, pen = claim(store)
        end(store, name, pen, begin(store, name, pen))
        page = admin_client.get(f"{PAGE}{name}/").content.decode()
        assert f'<a href="{PAGE}">Active streams</a> \N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK} {name}' in page
        assert "It ended <em>end_turn</em>" in page
        assert "Cancel this stream" not in page

    def test_its_ttft_is_that_of_its_record(self, admin_client: Client, alice: Tenant) -> None:
        RequestRecord.objects.create(
            id="msg_alice", organization=alice.key.organization, key=alice.key, model="m", input_tokens=1,
            created_at=datetime.now(UTC), ttft_ms=31_400.0,
        )  # fmt: skip
        text = text_of(admin_client, f"{PAGE}msg_alice/")
        assert "TTFT 31.4 s" in text
        assert "+31 s They were written to its client" in text

    def test_once_its_log_is_gone_its_record_is_shown(self, admin_client: Client, alice: Tenant) -> None:
        RequestRecord.objects.create(
            id="msg_old", organization=alice.key.organization, key=alice.key, model="m", input_tokens=1,
            created_at=datetime.now(UTC), outcome="end_turn",
        )  # fmt: skip
        page = admin_client.get(f"{PAGE}msg_old/").content.decode()
        assert "its log is no longer kept" in page
        assert "/admin/records/requestrecord/msg_old/change/" in page

    def test_one_that_nobody_knows(self, admin_client: Client) -> None:
        assert admin_client.get(f"{PAGE}msg_none/").status_code == 404

    def test_links_lead_where_one_may_go(self, staff: Staff, alice: Tenant) -> None:
        page = staff("view_streams", "view_apikey").get(f"{PAGE}msg_alice/").content.decode()
        assert f"/admin/accounts/apikey/{alice.key.pk.replace('_', '_5F')}/change/" in page
        assert "/admin/accounts/organization/" not in page
        assert "safetytrigger" not in page
