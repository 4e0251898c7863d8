"""The page of safety triggers."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from tests.conftest import Staff, Tenant
from tests.records.rows import find

pytestmark = pytest.mark.django_db

PAGE = "/admin/console/safety/"


def text_of(client: Client, query: str = "") -> str:
    r = client.get(f"{PAGE}{query}")
    assert r.status_code == 200
    return r.content.decode()


def test_it_works(admin_client: Client, alice: Tenant) -> None:
    find(alice, 1)
    find(alice, 2)
    find(alice, 3, category="toxicity", action="flag")
    r = admin_client.get(PAGE)
    assert [(name, number) for name, number, _, _ in r.context["categories"]] == [("secrets.jwt", 2), ("toxicity", 1)]
    page = r.content.decode()
    assert "/admin/records/requestrecord/msg_5F1/change/" in page
    assert f"/admin/accounts/apikey/{alice.key.pk.replace('_', '_5F')}/change/" in page
    assert "/admin/safety/safetypolicy/" in page


def test_it_leads_to_lists_that_show_the_same(admin_client: Client, alice: Tenant) -> None:
    find(alice, 1)
    find(alice, 2, found_at=timezone.now() - timedelta(days=40))
    for _, number, _, url in admin_client.get(PAGE).context["categories"]:
        assert len(admin_client.get(url).context["cl"].result_list) == number == 1


def test_it_says_what_would_be_there(admin_client: Client) -> None:
    page = text_of(admin_client)
    assert "No check found anything in this time." in page
    assert "Nothing yet." in page


def test_the_time_can_be_chosen(admin_client: Client, alice: Tenant) -> None:
    find(alice, 1, found_at=timezone.now() - timedelta(days=20))
    assert "No check found anything" in text_of(admin_client)
    assert "No check found anything" not in text_of(admin_client, "?window=30d")
    assert text_of(admin_client, "?window=nonsense").count('aria-current="true"') == 1


def test_it_asks_as_often_for_any_number(
    admin_client: Client, alice: Tenant, charlie: Tenant, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for position in range(30):
        find(alice if position % 2 else charlie, position)
    with django_assert_max_num_queries(5):
        text_of(admin_client)


def test_others_are_kept_out(client: Client, staff: Staff) -> None:
    assert client.get(PAGE).status_code == 302
    assert staff("view_streams").get(PAGE).status_code == 403


def test_links_lead_where_one_may_go(staff: Staff, alice: Tenant) -> None:
    find(alice, 1)
    page = text_of(staff("view_safetytrigger"))
    assert all(name in page for name in ("alpha", "alice", "msg_1"))
    assert "/admin/records/safetytrigger/msg_5F1" in page
    for other in ("accounts/organization", "accounts/apikey", "records/requestrecord", "safety/safetypolicy"):
        assert f"/admin/{other}/" not in page
