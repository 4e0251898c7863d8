"""Organisations and keys in the admin."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.db.models import ProtectedError
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from accounts.keys import create_key, find_key, revoke, rotate
from accounts.models import ApiKey, Member, Organization, new_key_id
from safety.models import SafetyPolicy
from tests.conftest import Tenant

pytestmark = pytest.mark.django_db

KEYS = "/admin/accounts/apikey/"
ORGANIZATIONS = "/admin/accounts/organization/"
PLAIN = re.compile(r"sk-sluice-\w{8}-\w{43}")


def form_of(tenant: Tenant, **more: Any) -> dict[str, Any]:
    return {"organization": tenant.key.organization_id, "name": "phone", "scopes": ["inference"]} | more


def text_of(response: Any) -> str:
    return str(response.content.decode())


def done_to(*keys: ApiKey, action: str, **more: str) -> dict[str, Any]:
    """The form that the page asking for confirmation sends."""
    prefixes = {f"prefix_{key.pk}": key.prefix for key in keys}
    return {"action": action, "_selected_action": [key.pk for key in keys], "confirmed": "yes"} | prefixes | more


class TestMaking:
    def test_a_key_is_shown_once(self, admin_client: Client, alice: Tenant) -> None:
        form = form_of(alice, rpm="10", allowed_models="a, b\nc", priority="batch", new_id=new_key_id())
        r = admin_client.post(f"{KEYS}add/", form)
        (plain,) = PLAIN.findall(text_of(r))
        key = find_key(plain)
        assert key is not None
        assert (key.name, key.rpm, key.allowed_models, key.priority) == ("phone", 10, ["a", "b", "c"], "batch")
        assert "no-store" in r.headers["Cache-Control"]
        assert plain not in text_of(admin_client.get(f"{KEYS}{key.pk}/change/"))
        assert plain not in str(LogEntry.objects.values())

    def test_a_form_that_is_sent_twice_makes_one(self, admin_client: Client, alice: Tenant) -> None:
        form = form_of(alice, new_id=new_key_id())
        admin_client.post(f"{KEYS}add/", form)
        assert "was made already" in text_of(admin_client.post(f"{KEYS}add/", form))
        assert ApiKey.objects.filter(name="phone").count() == 1

    @pytest.mark.parametrize(
        ("wrong", "complaint"),
        [
            ({"name": "two\nlines"}, "no line breaks"),
            ({"rpm": "0"}, "greater than or equal to 1"),
            ({"scopes": ["root"]}, "not one of the available choices"),
            ({"new_id": "mine"}, "Reload the page"),
            ({"allowed_models": "x" * 201}, "names of models"),
        ],
    )
    def test_it_rejects_what_will_not_do(
        self, admin_client: Client, alice: Tenant, wrong: dict[str, Any], complaint: str
    ) -> None:
        assert complaint in text_of(admin_client.post(f"{KEYS}add/", form_of(alice, **wrong)))
        assert ApiKey.objects.count() == 1

    def test_policies_are_those_there_are(self, admin_client: Client, alice: Tenant) -> None:
        SafetyPolicy.objects.create(name="mine")
        form = form_of(alice, policy="mine", new_id=new_key_id())
        (plain,) = PLAIN.findall(text_of(admin_client.post(f"{KEYS}add/", form)))
        key = find_key(plain)
        assert key is not None
        assert key.policy == "mine"
        page = f"{ORGANIZATIONS}{alice.key.organization_id}/change/"
        assert '<option value="mine">mine</option>' in text_of(admin_client.get(page))
        assert '<option value="" selected>(standard)</option>' in text_of(admin_client.get(page))
        assert "not one of the available choices" in text_of(
            admin_client.post(f"{KEYS}add/", form_of(alice, policy="none"))
        )

    def test_it_rejects_what_the_organisation_would_make_nothing_of(self, admin_client: Client, alice: Tenant) -> None:
        Organization.objects.update(scopes=["usage"], allowed_models=["small"])
        r = admin_client.post(f"{KEYS}add/", form_of(alice))
        assert "does not have inference" in text_of(r)
        r = admin_client.post(f"{KEYS}add/", form_of(alice, scopes=["usage"], allowed_models="large"))
        assert "may not use large" in text_of(r)


class TestChanging:
    def test_a_key_is_changed_but_never_deleted(self, admin_client: Client, alice: Tenant) -> None:
        page = f"{KEYS}{alice.key.pk}"
        admin_client.post(f"{page}/change/", {"name": "phone", "scopes": ["usage"], "rpm": "5"})
        key = ApiKey.objects.get(pk=alice.key.pk)
        assert (key.name, key.scopes, key.rpm) == ("phone", ["usage"], 5)
        assert find_key(alice.plain) == alice.key
        assert admin_client.post(f"{page}/delete/", {"post": "yes"}).status_code == 403

    def test_an_unchanged_form_changes_nothing(self, admin_client: Client, alice: Tenant) -> None:
        page = f"{KEYS}{alice.key.pk}/change/"
        admin_client.post(page, {"name": "alice", "scopes": ["inference", "usage"]})
        assert LogEntry.objects.get().get_change_message() == "No fields changed."


class TestRevoking:
    def test_it_asks_first(self, admin_client: Client, alice: Tenant, bob: Tenant) -> None:
        form = {"action": "revoke", "_selected_action": [alice.key.pk]}
        page = text_of(admin_client.post(KEYS, form))
        assert alice.key.prefix in page
        assert bob.key.prefix not in page
        assert ApiKey.objects.get(pk=alice.key.pk).active

    def test_it_works_and_is_on_record(self, admin_client: Client, alice: Tenant, bob: Tenant) -> None:
        admin_client.post(KEYS, done_to(alice.key, action="revoke"))
        assert not ApiKey.objects.get(pk=alice.key.pk).active
        assert ApiKey.objects.get(pk=bob.key.pk).active
        assert LogEntry.objects.get().change_message == "Revoked."


class TestRotating:
    def test_the_new_text_is_shown_once_and_the_old_one_works_on(self, admin_client: Client, alice: Tenant) -> None:
        assert "works for 1 day more" in text_of(
            admin_client.post(KEYS, {"action": "rotate", "_selected_action": [alice.key.pk]})
        )
        r = admin_client.post(KEYS, done_to(alice.key, action="rotate", overlap="1h"))
        (plain,) = PLAIN.findall(text_of(r))
        key = find_key(plain)
        assert key == alice.key
        assert key.overlap is not None
        assert key.overlap - timezone.now() < timedelta(hours=1)
        assert "no-store" in r.headers["Cache-Control"]
        assert plain not in str(LogEntry.objects.values())

    def test_a_page_that_is_sent_twice_rotates_once(self, admin_client: Client, alice: Tenant) -> None:
        form = done_to(alice.key, action="rotate")
        (plain,) = PLAIN.findall(text_of(admin_client.post(KEYS, form)))
        again = text_of(admin_client.post(KEYS, form, follow=True))
        assert "was rotated in the meantime" in again
        assert not PLAIN.findall(again)
        assert find_key(plain) == alice.key

    def test_a_revoked_key_is_left_out(self, admin_client: Client, alice: Tenant) -> None:
        revoke(alice.key)
        assert "1 left out" in text_of(admin_client.post(KEYS, done_to(alice.key, action="rotate"), follow=True))


class TestOrganizations:
    def test_one_is_made_with_limits_and_members(self, admin_client: Client, staff: Callable[[str], User]) -> None:
        form = {"name": "acme", "scopes": ["inference"], "rpm": "60", "memberships-TOTAL_FORMS": "1"}
        form |= {"memberships-INITIAL_FORMS": "0", "memberships-0-user": str(staff("ann").pk)}
        admin_client.post(f"{ORGANIZATIONS}add/", form | {"memberships-0-role": "admin"})
        acme = Organization.objects.get()
        assert (acme.name, acme.scopes, acme.rpm, acme.allowed_models) == ("acme", ["inference"], 60, None)
        assert acme.memberships.get().role == "admin"

    def test_they_are_suspended_and_resumed(self, admin_client: Client, alice: Tenant) -> None:
        for action, state in (("suspend", "suspended"), ("resume", "active")):
            admin_client.post(ORGANIZATIONS, {"action": action, "_selected_action": [alice.key.organization_id]})
            assert ApiKey.objects.get().state == state
        assert [entry.change_message for entry in LogEntry.objects.all()] == ["Resumed.", "Suspended."]

    @pytest.mark.parametrize("bulk", [False, True])
    def test_one_that_has_keys_stays(self, admin_client: Client, alice: Tenant, bulk: bool) -> None:
        organization = alice.key.organization
        if bulk:
            form = {"action": "delete_selected", "_selected_action": [organization.pk], "post": "yes"}
            admin_client.post(ORGANIZATIONS, form)
        else:
            assert admin_client.post(f"{ORGANIZATIONS}{organization.pk}/delete/", {"post": "yes"}).status_code == 403
        assert Organization.objects.filter(pk=organization.pk).exists()
        with pytest.raises(ProtectedError):
            organization.delete()

    def test_an_empty_one_is_deleted(self, admin_client: Client) -> None:
        organization = Organization.objects.create(name="typo")
        admin_client.post(f"{ORGANIZATIONS}{organization.pk}/delete/", {"post": "yes"})
        assert not Organization.objects.exists()


class TestLists:
    @pytest.mark.parametrize("path", [KEYS, ORGANIZATIONS])
    def test_more_rows_cost_no_more_queries(
        self, admin_client: Client, alice: Tenant, django_assert_max_num_queries: DjangoAssertNumQueries, path: str
    ) -> None:
        for number in range(30):
            create_key(name=f"key {number}", organization=f"organisation {number}", rpm=number + 1)
        with django_assert_max_num_queries(9):
            assert admin_client.get(path).status_code == 200

    @pytest.mark.parametrize("state", ["active", "suspended", "expired", "revoked"])
    def test_keys_are_found_by_their_state(self, admin_client: Client, state: str) -> None:
        past = timezone.now() - timedelta(hours=1)
        made = {name: create_key(name=name, organization=name)[0] for name in ("active", "suspended", "expired")}
        made["revoked"], _ = create_key(name="revoked", expires_at=past)
        Organization.objects.filter(name="suspended").update(suspended_at=past)
        Organization.objects.filter(name="expired").update(expires_at=past)
        revoke(made["revoked"])
        page = text_of(admin_client.get(f"{KEYS}?state={state}"))
        assert [name for name, key in made.items() if key.prefix in page] == [state]
        assert ApiKey.objects.get(name=state).state == state

    def test_a_key_is_found_by_the_prefix_it_had(self, admin_client: Client, alice: Tenant) -> None:
        before = alice.key.prefix
        rotate(alice.key, overlap=timedelta(hours=1))
        assert alice.key.prefix in text_of(admin_client.get(f"{KEYS}?q={before}"))


class TestMembers:
    """Ann works at alpha, where Alice's key is; Charlie's key is another organisation's."""

    def test_a_viewer_looks_on(self, member: Callable[[str], Client], alice: Tenant, charlie: Tenant) -> None:
        client = member("viewer")
        page = text_of(client.get(KEYS))
        assert alice.key.prefix in page
        assert charlie.key.prefix not in page
        assert "gamma" not in text_of(client.get(ORGANIZATIONS))
        assert "inference, usage" in text_of(client.get(f"{KEYS}{alice.key.pk}/change/"))
        assert client.get(f"{KEYS}{charlie.key.pk}/change/").status_code == 302
        assert client.get(f"{KEYS}add/").status_code == 403
        assert client.post(f"{KEYS}{alice.key.pk}/change/", {"name": "x", "scopes": ["usage"]}).status_code == 403
        client.post(KEYS, done_to(alice.key, action="revoke"))
        assert ApiKey.objects.get(pk=alice.key.pk).active

    def test_an_admin_manages_its_keys(self, member: Callable[[str], Client], alice: Tenant) -> None:
        client = member("admin")
        assert PLAIN.search(text_of(client.post(f"{KEYS}add/", form_of(alice))))
        assert PLAIN.search(text_of(client.post(KEYS, done_to(alice.key, action="rotate"))))
        client.post(KEYS, done_to(ApiKey.objects.get(pk=alice.key.pk), action="revoke"))
        assert not ApiKey.objects.get(pk=alice.key.pk).active

    def test_but_gives_no_more_than_the_organisation_has(self, member: Callable[[str], Client], alice: Tenant) -> None:
        Organization.objects.update(rpm=10, policy="standard")
        client = member("admin")
        for more, complaint in (
            ({"rpm": "11"}, "at most 10"),
            ({"priority": "priority"}, "expected batch or standard"),
            ({"policy": "off"}, "expected standard or strict-output or strict"),
        ):
            assert complaint in text_of(client.post(f"{KEYS}add/", form_of(alice, **more)))

    def test_nor_touches_what_is_not_its_own(
        self, member: Callable[[str], Client], alice: Tenant, charlie: Tenant
    ) -> None:
        client = member("admin")
        assert "Select a valid choice" in text_of(client.post(f"{KEYS}add/", form_of(charlie)))
        for action in ("rotate", "revoke"):
            client.post(KEYS, done_to(charlie.key, action=action))
        page = f"{ORGANIZATIONS}{alice.key.organization_id}/"
        assert client.post(f"{page}change/", {"name": "mine"}).status_code == 403
        client.post(ORGANIZATIONS, {"action": "suspend", "_selected_action": [alice.key.organization_id]})
        assert find_key(charlie.plain) == charlie.key
        assert ApiKey.objects.get(pk=alice.key.pk).state == "active"

    def test_a_role_elsewhere_does_not_help(self, member: Callable[[str], Client], charlie: Tenant) -> None:
        client = member("viewer")
        Member.objects.create(
            organization=charlie.key.organization, user=User.objects.get(username="ann"), role="admin"
        )
        alpha = ApiKey.objects.get(name="alice")
        client.post(KEYS, done_to(alpha, charlie.key, action="revoke"))
        assert [key.name for key in ApiKey.objects.filter(revoked_at=None)] == ["alice"]

    def test_outsiders_are_kept_out(self, client: Client, staff: Callable[[str], User], alice: Tenant) -> None:
        assert client.get(KEYS).status_code == 302
        client.force_login(staff("nobody"))
        assert client.get(KEYS).status_code == 403


@pytest.fixture
def staff(db: None) -> Callable[[str], User]:
    return lambda name: User.objects.create_user(name, is_staff=True)


@pytest.fixture
def member(client: Client, staff: Callable[[str], User], alice: Tenant) -> Callable[[str], Client]:
    def log_in(role: str) -> Client:
        user = staff("ann")
        Member.objects.create(organization=alice.key.organization, user=user, role=role)
        client.force_login(user)
        return client

    return log_in
