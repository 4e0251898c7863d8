"""The pages of SLOs and of latency."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from records.models import RequestRecord
from slo.picture import Picture
from slo.windows import WINDOWS, Window
from tests.conftest import Tenant
from tests.console.slo.pictures import a_picture, an_empty_picture

pytestmark = pytest.mark.django_db

SLO, LATENCY = "/admin/console/slo/", "/admin/console/latency/"
PAGES = pytest.mark.parametrize("page", [SLO, LATENCY])


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the pages look at, from now on: a busy platform."""
    seen: list[Any] = []

    def look(window: Window, *, model: str, organization: str) -> Picture:
        seen.append((window.name, model, organization))
        return a_picture(window.num_steps, window.step_s)

    monkeypatch.setattr("console.slo.views.look", look)
    return seen


def a_record(tenant: Tenant, message_id: str, **facts: Any) -> None:
    usual = {"organization": tenant.key.organization, "key": tenant.key, "model": "m", "created_at": timezone.now(),
             "input_tokens": 3, "ttft_ms": 50.0, "outcome": "end_turn"}  # fmt: skip
    RequestRecord.objects.create(id=message_id, **usual | facts)


def text_of(client: Client, page: str) -> str:
    response = client.get(page)
    assert response.status_code == 200
    return response.content.decode()


@PAGES
def test_it_is_only_read(admin_client: Client, page: str) -> None:
    assert admin_client.post(page).status_code == 405


@PAGES
def test_it_works_with_nothing_measured(admin_client: Client, page: str) -> None:
    text = text_of(admin_client, page)
    assert "in this window" in text
    assert 'aria-current="page"' in text


@pytest.mark.usefixtures("looks")
def test_the_dashboard_shows_a_picture(admin_client: Client) -> None:
    text = text_of(admin_client, SLO)
    assert "472 ms" in text, "an objective"
    assert "overloaded_error, %" in text, "a table"
    assert "Nothing of this was measured" not in text


@PAGES
@pytest.mark.usefixtures("looks")
def test_scripts_and_styles_are_of_this_site_and_in_files(admin_client: Client, page: str) -> None:
    text = text_of(admin_client, page)
    content = text.split('id="content"')[1]
    assert "style=" not in content
    assert not re.search(r"\son\w+=", content)
    assert all("src=" in tag or "application/json" in tag for tag in re.findall(r"<script[^>]*>", content))
    assert not re.search(r"""(src|href)=["'](https?:)?//""", text)


@PAGES
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.usefixtures("looks")
def test_what_scripts_read_is_small(admin_client: Client, page: str, window: str) -> None:
    text = text_of(admin_client, f"{page}?window={window}")
    found = re.search(r'<script id="chart-data" type="application/json">(.*?)</script>', text, re.DOTALL)
    assert found
    assert len(found[1]) < 150_000
    assert all(len(chart["x"]) <= 360 for chart in json.loads(found[1]))


@PAGES
def test_it_asks_for_what_the_form_says(admin_client: Client, alice: Tenant, looks: list[Any], page: str) -> None:
    a_record(alice, "msg_1", model="small")
    owner = alice.key.organization_id
    text = text_of(admin_client, f"{page}?window=24h&model=small&organization={owner}")
    assert looks == [("24h", "small", owner)]
    assert text.count(" selected>") == 3


@PAGES
def test_the_usual_window(admin_client: Client, looks: list[Any], page: str) -> None:
    text_of(admin_client, page)
    text_of(admin_client, f"{page}?window=&model=&organization=")
    assert looks == [("1h", "", "")] * 2


@PAGES
@pytest.mark.parametrize(("query", "complaint"), [
    ("window=2h", "There is no window “2h”."),
    ("model=none", "There is no model “none”."),
    ("organization=org_none", "There is no organisation “org_none”."),
    ("model=<script>", "There is no model “&lt;script&gt;”."),
])  # fmt: skip
def test_it_rejects_what_there_is_not(
    admin_client: Client, looks: list[Any], page: str, query: str, complaint: str
) -> None:
    response = admin_client.get(f"{page}?{query}")
    assert response.status_code == 400
    assert complaint in response.content.decode()
    assert looks == []


@PAGES
def test_it_is_for_staff_with_the_permission(client: Client, page: str) -> None:
    user = User.objects.create_user("op", password="x", is_staff=True)
    assert client.get(page).status_code == 302
    client.force_login(user)
    assert client.get(page).status_code == 403
    user.user_permissions.add(Permission.objects.get(codename="view_slo"))
    assert client.get(page).status_code == 200


def test_the_slowest_requests_lead_to_their_records(admin_client: Client, alice: Tenant) -> None:
    for number in range(12):
        a_record(alice, f"msg_{number:02}", ttft_ms=float(100 * number))
    text = text_of(admin_client, LATENCY)
    found = re.findall(r"/admin/records/requestrecord/msg_5F(\d\d)/change/", text)
    assert found == [f"{number:02}" for number in range(11, 1, -1)]


def test_whoever_may_not_see_records_sees_times_alone(client: Client, alice: Tenant) -> None:
    a_record(alice, "msg_1", ttft_ms=4321.0)
    user = User.objects.create_user("op", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="view_slo"))
    client.force_login(user)
    text = text_of(client, LATENCY)
    assert "4,321" in text
    assert "msg_1" not in text
    assert "/admin/records/requestrecord/" not in text


@PAGES
@pytest.mark.usefixtures("looks")
def test_the_number_of_queries_does_not_grow(admin_client: Client, alice: Tenant, charlie: Tenant, page: str) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as found:
            text_of(admin_client, f"{page}?window=30d")
        return len(found)

    a_record(alice, "msg_0")
    few = queries()
    for number in range(1, 9):
        a_record(charlie if number % 2 else alice, f"msg_{number}", model=f"m{number}")
    assert queries() == few


@pytest.mark.parametrize(("window", "seconds"), [("15m", "60"), ("6h", "60"), ("24h", "0"), ("30d", "0")])
@pytest.mark.usefixtures("looks")
def test_only_short_windows_are_refreshed(admin_client: Client, window: str, seconds: str) -> None:
    assert f'data-refresh-s="{seconds}"' in text_of(admin_client, f"{SLO}?window={window}")


def test_names_are_text(admin_client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    evil = "</script><script>alert(1)</script>"
    monkeypatch.setattr(
        "console.slo.views.look", lambda *_, **__: replace(an_empty_picture(), outcomes={evil: [1] * 60})
    )
    text = text_of(admin_client, SLO)
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert(1)" in text
