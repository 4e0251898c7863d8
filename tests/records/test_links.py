"""Lists lead to each other."""

from __future__ import annotations

import re

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from accounts.models import Member
from batches.models import Batch
from records.models import DailyUsage, RequestRecord
from tests.conftest import Staff, Tenant
from tests.records.rows import find

pytestmark = pytest.mark.django_db


@pytest.fixture
def some(alice: Tenant) -> Tenant:
    """A request of Alice's with a trigger, its day's usage, and a batch; Bob's are not there."""
    now = timezone.now()
    whose = {"organization": alice.key.organization, "key": alice.key, "model": "m"}
    RequestRecord.objects.create(
        id="msg_1", created_at=now, outcome="end_turn", input_tokens=3, output_tokens=5, **whose
    )
    find(alice, found_at=now)
    DailyUsage.objects.create(day=now.date(), outcome="end_turn", requests=1234, **whose)
    owner = {"organization": alice.key.organization, "key": alice.key}
    Batch.objects.create(id="msgbatch_1", expires_at=now, processing=1, **owner)
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
            assert len(r.context["cl"].result_list) == number


def test_nobody_is_led_to_lists_that_they_may_not_see(staff: Staff, some: Tenant) -> None:
    links = links_of(staff("view_apikey"), f"/admin/accounts/apikey/{some.key.pk}/change/")
    assert not [link for link in links if "__id__exact" in link]


@pytest.mark.parametrize(
    ("permission", "path"),
    [
        ("view_requestrecord", "/admin/records/requestrecord/"),
        ("view_requestrecord", "/admin/records/requestrecord/msg_1/change/"),
        ("view_safetytrigger", "/admin/records/safetytrigger/"),
        ("view_safetytrigger", "/admin/records/safetytrigger/msg_1:patterns:output:0/change/"),
        ("view_safetytrigger", "/admin/console/safety/"),
        ("view_dailyusage", "/admin/records/dailyusage/"),
        ("view_organization", "/admin/accounts/organization/"),
        ("view_organization", "/admin/accounts/organization/{organization}/change/"),
        ("view_apikey", "/admin/accounts/apikey/"),
        ("view_apikey", "/admin/accounts/apikey/{key}/change/"),
        ("view_batch", "/admin/batches/batch/"),
        ("view_batch", "/admin/batches/batch/msgbatch_1/change/"),
    ],
)
def test_each_link_leads_where_one_may_go(staff: Staff, some: Tenant, permission: str, path: str) -> None:
    Member.objects.create(organization=some.key.organization, user=User.objects.create_user("bob"), role="viewer")
    client = staff(permission, "view_member")
    path = path.format(key=some.key.pk, organization=some.key.organization_id)
    page = client.get(path).content.decode()
    assert "alpha" in page
    links = set(links_of(client, path))
    assert not [
        link for link in links if link.startswith("/admin/") and client.get(link, follow=True).status_code != 200
    ]


def test_who_sees_some_rows_is_led_to_those(staff: Staff, some: Tenant, charlie: Tenant) -> None:
    """A member of one organisation, who watches the triggers of all."""
    find(charlie, 1)
    client = staff("view_safetytrigger")
    Member.objects.create(organization=some.key.organization, user=User.objects.get(), role=Member.Role.VIEWER)
    links = links_of(client, "/admin/records/safetytrigger/")
    pages = [link for link in links if link.startswith("/admin/accounts/")]
    assert [link for link in pages if some.key.pk.replace("_", "_5F") in link]
    assert not [link for link in pages if charlie.key.pk.replace("_", "_5F") in link]


def test_members_are_led_to_what_their_role_lets_them_see(staff: Staff, some: Tenant) -> None:
    client = staff()
    Member.objects.create(organization=some.key.organization, user=User.objects.get(), role=Member.Role.VIEWER)
    owner = some.key.organization_id
    lists = [
        link for link in links_of(client, f"/admin/accounts/organization/{owner}/change/") if f"exact={owner}" in link
    ]
    assert {link.split("/")[3] for link in lists} == {"apikey", "batch"}
    assert [len(client.get(link).context["cl"].result_list) for link in lists] == [1] * len(lists)


def test_links_cost_no_more_queries_for_more_rows(
    staff: Staff, some: Tenant, charlie: Tenant, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    client = staff("view_safetytrigger", "view_apikey")
    path = "/admin/records/safetytrigger/"
    with CaptureQueriesContext(connection) as of_one:
        links_of(client, path)
    for position in range(1, 20):
        find(charlie if position % 2 else some, position)
    with django_assert_num_queries(len(of_one)):
        links_of(client, path)
