"""Safety triggers in the admin."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from records.admin.triggers import span_of
from records.models import RequestRecord
from tests.conftest import Staff, Tenant
from tests.records.rows import find

pytestmark = pytest.mark.django_db

LIST = "/admin/records/safetytrigger/"


def text_of(client: Client, path: str = LIST) -> str:
    r = client.get(path)
    assert r.status_code == 200, r
    return r.content.decode()


def positions(page: str) -> list[int]:
    """Return which triggers a list shows."""
    return sorted({int(number) for number in re.findall(r"msg_5F1_3Apatterns_3Aoutput_3A(\d+)/change", page)})


def test_it_works(admin_client: Client, alice: Tenant) -> None:
    find(alice)
    page = text_of(admin_client)
    assert "secrets.jwt" in page
    assert "/admin/records/requestrecord/msg_5F1/change/" in page
    assert re.search(r"<title>[\d-]+ secrets.jwt: 1</title>", page), "the chart"


def test_an_empty_list_has_a_chart(admin_client: Client) -> None:
    assert "Triggers per day <span>0 in all</span>" in text_of(admin_client)


def test_more_rows_cost_no_more_queries(
    admin_client: Client, alice: Tenant, charlie: Tenant, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for number in range(30):
        find(charlie if number % 2 else alice, number)
    with django_assert_max_num_queries(12):
        text_of(admin_client)


@pytest.mark.parametrize(
    ("query", "facts"),
    [
        ("check_name__exact=toxicity", {"check_name": "toxicity"}),
        ("category=toxicity", {"category": "toxicity"}),
        ("action__exact=flag", {"action": "flag"}),
        ("side__exact=prompt", {"side": "prompt"}),
        ("policy=standard", {"policy": "standard"}),
        ("found_at__year=2026&found_at__month=1", {"found_at": datetime(2026, 1, 31, 23, tzinfo=UTC)}),
        ("q=msg_2", {"record_id": "msg_2"}),
    ],
)
def test_it_filters_list_and_chart(admin_client: Client, alice: Tenant, query: str, facts: dict[str, Any]) -> None:
    find(alice, 1)
    find(alice, 2, **facts)
    page = text_of(admin_client, f"{LIST}?{query}")
    assert positions(page) == [2]
    assert page.count("<title>") == 1 + 1, "of the page, and of one bar"


def test_it_filters_by_organisation(admin_client: Client, alice: Tenant, charlie: Tenant) -> None:
    find(alice, 1)
    find(charlie, 2)
    page = text_of(admin_client, f"{LIST}?organization__id__exact={charlie.key.organization_id}")
    assert positions(page) == [2]


@pytest.mark.parametrize("query", ["found_at__gte=soon", "found_at__year=99999", "found_at__month=13", "position=1"])
def test_a_filter_that_will_not_do_fails_nothing(admin_client: Client, query: str) -> None:
    assert admin_client.get(f"{LIST}?{query}").status_code in (302, 400)


class TestSpans:
    NOW = datetime(2026, 3, 31, 12, tzinfo=UTC)

    @pytest.mark.parametrize(
        ("parameters", "first", "bars", "hours"),
        [
            ({}, "2026-03-01", 31, 24),
            ({"found_at__year": "2025"}, "2025-01-01", 365, 24),
            ({"found_at__year": "2025", "found_at__month": "12"}, "2025-12-01", 31, 24),
            ({"found_at__year": "2025", "found_at__month": "12", "found_at__day": "31"}, "2025-12-31 00:00", 24, 1),
            ({"found_at__year": "2026", "found_at__month": "3"}, "2026-03-01", 31, 24),
            ({"found_at__gte": "2026-03-31 00:00:00+00:00"}, "2026-03-31 00:00", 12, 1),
            ({"found_at__gte": "2027-01-01"}, "2026-03-31 12:00", 1, 1),
        ],
    )
    def test_they_follow_the_filters(self, parameters: dict[str, str], first: str, bars: int, hours: int) -> None:
        span = span_of(parameters, self.NOW)
        assert (span.title_of(0), span.bars, span.hours) == (first, bars, hours)


class TestTexts:
    def test_they_need_a_permission(self, staff: Staff, alice: Tenant) -> None:
        kept: dict[str, Any] = {"text": "eyJ-secret", "text_until": timezone.now() + timedelta(days=1)}
        path = f"{LIST}{find(alice, **kept).pk}/change/"
        client = staff("view_safetytrigger")
        assert "eyJ-secret" not in text_of(client, path)
        User.objects.get().user_permissions.add(Permission.objects.get(codename="view_trigger_text"))
        assert "eyJ-secret" in text_of(client, path)
        assert "eyJ-secret" not in text_of(client)
        export: Any = client.get(f"{LIST}export/")
        assert b"eyJ-secret" not in b"".join(export.streaming_content)

    def test_one_whose_time_is_over_is_shown_to_nobody(self, admin_client: Client, alice: Tenant) -> None:
        trigger = find(alice, text="eyJ-secret", text_until=timezone.now())
        page = text_of(admin_client, f"{LIST}{trigger.pk}/change/")
        assert "eyJ-secret" not in page
        assert "(not kept)" in page


class TestRequests:
    RECORD = "/admin/records/requestrecord/msg_1/change/"

    @pytest.fixture(autouse=True)
    def record(self, alice: Tenant) -> RequestRecord:
        return RequestRecord.objects.create(
            id="msg_1", organization=alice.key.organization, key=alice.key, model="m", created_at=timezone.now(),
            input_tokens=3, outcome="safety", checks={"patterns": 0.4}, held_tokens=2, held_ms=1.5,
        )  # fmt: skip

    def test_a_request_lists_its_triggers(self, admin_client: Client, alice: Tenant) -> None:
        find(alice, 5)
        page = text_of(admin_client, self.RECORD)
        assert positions(page) == [5]
        assert "patterns" in page

    def test_but_not_to_who_may_not_see_triggers(self, staff: Staff, alice: Tenant) -> None:
        find(alice, 5)
        page = text_of(staff("view_requestrecord"), self.RECORD)
        assert "secrets.jwt" not in page


def test_triggers_are_not_changed_by_hand(admin_client: Client, alice: Tenant) -> None:
    path = f"{LIST}{find(alice).pk}/"
    assert admin_client.post(f"{path}change/", {}).status_code == 403
    assert admin_client.get(f"{path}delete/").status_code == 403
    assert admin_client.get(f"{LIST}add/").status_code == 403
