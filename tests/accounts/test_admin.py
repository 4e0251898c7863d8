"""Keys in the admin."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from accounts.keys import find_key
from accounts.models import ApiKey
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


def test_keys_are_revoked(admin_client: Client, alice: Tenant) -> None:
    form = {"action": "revoke", "_selected_action": [alice.key.pk]}
    admin_client.post("/admin/accounts/apikey/", form)
    assert not ApiKey.objects.get(pk=alice.key.pk).active


def test_outsiders_are_kept_out(client: Client) -> None:
    assert client.get("/admin/accounts/apikey/").status_code == 302
