"""Lists lead to each other."""

from __future__ import annotations

import re

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.utils import timezone

from records.models import DailyUsage, RequestRecord, SafetyTrigger
from tests.conftest import Tenant

pytestmark = pytest.mark.django_db


@pytest.fixture
def some(alice: Tenant) -> Tenant:
    """A request of Alice's with a trigger, and its day's usage; Bob's are not there."""
    now = timezone.now()
    whose = {"organization": alice.key.organization, "key": alice.key, "model": "m"}
    RequestRecord.objects.create(
        id="msg_1", created_at=now, outcome="end_turn", input_tokens=3, output_tokens=5, **whose
    )
    SafetyTrigger.objects.create(
        id="msg_1:patterns:output:0", record_id="msg_1", policy="strict", check_name="patterns", category="c",
        action="flag", side="output", position=0, score=1.0, found_at=now, hour=int(now.timestamp()) // 3600, **whose,
    )  # fmt: skip
    DailyUsage.objects.create(day=now.date(), outcome="end_turn", requests=1234, **whose)
    return alice


def links_of(client: Client, path: str) -> list[str]:
    page = client.get(path)
    assert page.status_code == 200, path
    return re.findall(r'href="([^"]+)"', page.content.decode().replace("&amp;", "&"))


@pytest.mark.parametrize("rows", ["requestrecord", "safetytrigger", "dailyusage"])
def test_a_row_leads_to_who_it_is_of(admin_client: Client, some: Tenant, rows: str) -> None:
    links = links_of(admin_client, f"/admin/records/{rows}/")
    for name, pk in (("organization", some.key.organization_id), ("apikey", some.key.pk)):
        page = f"/admin/accounts/{name}/{pk.replace('_', '_5F')}/change/"
        assert page in links
        assert admin_client.get(page).status_code == 200


def test_usage_leads_to_its_requests(admin_client: Client, some: Tenant) -> None:
    (path,) = {link for link in links_of(admin_client, "/admin/records/dailyusage/") if "created_at__day" in link}
    assert [row.pk for row in admin_client.get(path).context["cl"].result_list] == ["msg_1"]
    DailyUsage.objects.update(outcome="error")
    (path,) = {link for link in links_of(admin_client, "/admin/records/dailyusage/") if "created_at__day" in link}
    assert not admin_client.get(path).context["cl"].result_list


def test_a_trigger_leads_to_its_policy(admin_client: Client, some: Tenant) -> None:
    (path,) = {link for link in links_of(admin_client, "/admin/records/safetytrigger/") if "safetypolicy/?q" in link}
    assert "strict" in [row.name for row in admin_client.get(path).context["cl"].result_list]


@pytest.mark.parametrize("owner", ["organization", "apikey"])
def test_an_owner_leads_to_what_is_theirs(admin_client: Client, some: Tenant, charlie: Tenant, owner: str) -> None:
    for tenant, number in ((some, 1), (charlie, 0)):
        pk = tenant.key.pk if owner == "apikey" else tenant.key.organization_id
        links = links_of(admin_client, f"/admin/accounts/{owner}/{pk}/change/")
        lists = [link for link in links if link.endswith(f"__id__exact={pk}") and "apikey" not in link]
        assert len(lists) == 4
        for path in lists:
            r = admin_client.get(path)
            assert r.status_code == 200, path
            assert len(r.context["cl"].result_list) == (number if "/records/" in path else 0)


def test_nobody_is_led_to_what_they_may_not_see(client: Client, some: Tenant) -> None:
    user = User.objects.create_user("olga", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename="view_apikey"))
    client.force_login(user)
    links = links_of(client, f"/admin/accounts/apikey/{some.key.pk}/change/")
    assert not [link for link in links if "__id__exact" in link]
