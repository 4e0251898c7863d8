"""Batches in the admin."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from accounts.models import Member
from batches.models import Batch
from tests.batches.tools import make_batch, params
from tests.conftest import Tenant

pytestmark = pytest.mark.django_db
PAGE = "/admin/batches/batch/"


def cancel_form(*batches: Batch) -> dict[str, Any]:
    return {"action": "cancel_batches", "_selected_action": [batch.pk for batch in batches]}


def member_client(tenant: Tenant, role: str) -> Client:
    user = User.objects.create_user(f"{role}@{tenant.key.name}", is_staff=True)
    Member.objects.create(organization=tenant.key.organization, user=user, role=role)
    client = Client()
    client.force_login(user)
    return client


def test_it_works(admin_client: Client, alice: Tenant) -> None:
    batch = make_batch(alice, params("A secret."))
    page = admin_client.get(PAGE).content.decode()
    assert all(word in page for word in (batch.pk, "alpha", "in progress"))
    shown = admin_client.get(f"{PAGE}{batch.pk}/change/")
    assert shown.status_code == 200
    assert "A secret." not in page + shown.content.decode()


def test_its_queries_do_not_grow(admin_client: Client, alice: Tenant, charlie: Tenant) -> None:
    def queries() -> int:
        with CaptureQueriesContext(
            connection,
        ) as found:
            admin_client.get(PAGE)
        return len(found)

    make_batch(alice, params())
    few = queries()
    for tenant in (alice, charlie) * 5:
        make_batch(tenant, params())
    assert queries() == few


def test_an_operator_cancels(admin_client: Client, alice: Tenant) -> None:
    batch = make_batch(alice, params())
    r = admin_client.post(PAGE, cancel_form(batch), follow=True)
    assert "Canceling 1 batch." in r.content.decode()
    batch.refresh_from_db()
    assert batch.status == "canceling"


def test_a_member_sees_and_cancels_what_is_its_organisations(alice: Tenant, charlie: Tenant) -> None:
    own, other = make_batch(alice, params()), make_batch(charlie, params())
    client = member_client(alice, Member.Role.ADMIN)
    page = client.get(PAGE).content.decode()
    assert (own.pk in page, other.pk in page, "gamma" in page) == (True, False, False)
    client.post(PAGE, cancel_form(own, other))
    own.refresh_from_db()
    other.refresh_from_db()
    assert (own.status, other.status) == ("canceling", "in_progress")


def test_a_viewer_cancels_nothing(alice: Tenant) -> None:
    batch = make_batch(alice, params())
    client = member_client(alice, Member.Role.VIEWER)
    assert batch.pk in client.get(PAGE).content.decode()
    client.post(PAGE, cancel_form(batch))
    batch.refresh_from_db()
    assert batch.status == "in_progress"


def test_nobody_changes_adds_or_deletes(admin_client: Client, alice: Tenant) -> None:
    batch = make_batch(alice, params())
    assert admin_client.get(f"{PAGE}add/").status_code == 403
    assert admin_client.post(f"{PAGE}{batch.pk}/delete/").status_code == 403
    assert admin_client.post(f"{PAGE}{batch.pk}/change/", {"processing": 9}).status_code == 403


def test_who_may_only_view_has_no_action(alice: Tenant) -> None:
    batch = make_batch(alice, params())
    user = User.objects.create_user("viewer", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="view_batch"))
    client = Client()
    client.force_login(user)
    assert "cancel_batches" not in client.get(PAGE).content.decode()
    client.post(PAGE, cancel_form(batch))
    batch.refresh_from_db()
    assert batch.status == "in_progress"
