"""Keys in the admin."""

from __future__ import annotations

import re

import pytest
from django.db.models import ProtectedError
from django.test import Client

from accounts.keys import find_key
from accounts.models import ApiKey, Organization
from tests.conftest import Tenant

pytestmark = pytest.mark.django_db


def test_a_key_is_made_and_shown_once(admin_client: Client, alice: Tenant) -> None:
    form = {"organization": alice.key.organization_id, "name": "phone"}
    page = admin_client.post("/admin/accounts/apikey/add/", form, follow=True).content.decode()
    (plain,) = re.findall(r"sk-sluice-\w{8}-\w{43}", page)
    key = find_key(plain)
    assert key is not None
    assert key.name == "phone"
    assert plain not in admin_client.get(f"/admin/accounts/apikey/{key.pk}/change/").content.decode()


def test_it_rejects_a_name_of_two_lines(admin_client: Client, alice: Tenant) -> None:
    form = {"organization": alice.key.organization_id, "name": "two\nlines"}
    assert "no line breaks" in admin_client.post("/admin/accounts/apikey/add/", form).content.decode()
    assert ApiKey.objects.count() == 1


def test_keys_are_revoked(admin_client: Client, alice: Tenant) -> None:
    form = {"action": "revoke", "_selected_action": [alice.key.pk]}
    admin_client.post("/admin/accounts/apikey/", form)
    assert not ApiKey.objects.get(pk=alice.key.pk).active


def test_outsiders_are_kept_out(client: Client) -> None:
    assert client.get("/admin/accounts/apikey/").status_code == 302


def test_a_key_is_renamed_but_never_deleted(admin_client: Client, alice: Tenant) -> None:
    page = f"/admin/accounts/apikey/{alice.key.pk}"
    admin_client.post(f"{page}/change/", {"name": "phone"})
    assert ApiKey.objects.get(pk=alice.key.pk).name == "phone"
    assert find_key(alice.plain) == alice.key
    assert admin_client.post(f"{page}/delete/", {"post": "yes"}).status_code == 403


@pytest.mark.parametrize("bulk", [False, True])
def test_an_organization_that_has_keys_stays(admin_client: Client, alice: Tenant, bulk: bool) -> None:
    organization = alice.key.organization
    listing = "/admin/accounts/organization/"
    if bulk:
        form = {"action": "delete_selected", "_selected_action": [organization.pk], "post": "yes"}
        admin_client.post(listing, form)
    else:
        assert admin_client.post(f"{listing}{organization.pk}/delete/", {"post": "yes"}).status_code == 403
    assert Organization.objects.filter(pk=organization.pk).exists()
    with pytest.raises(ProtectedError):
        organization.delete()


def test_an_empty_organization_is_deleted(admin_client: Client) -> None:
    organization = Organization.objects.create(name="typo")
    admin_client.post(f"/admin/accounts/organization/{organization.pk}/delete/", {"post": "yes"})
    assert not Organization.objects.exists()
