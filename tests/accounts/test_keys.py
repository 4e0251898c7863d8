"""Keys: shown once, kept as prefix and digest."""

from __future__ import annotations

import pytest
from django.utils import timezone

from accounts.keys import create_key, find_caller, find_key, plain_key, prefix_of
from accounts.models import ApiKey, Organization
from tests.conftest import Tenant

pytestmark = pytest.mark.django_db


def test_it_works(alice: Tenant) -> None:
    assert find_key(alice.plain) == alice.key
    caller = find_caller(alice.plain)
    assert caller is not None
    assert (caller.key, caller.organization) == (alice.key.id, alice.key.organization_id)
    assert caller.scopes == {"inference", "usage"}


def test_the_key_itself_is_kept_nowhere(alice: Tenant) -> None:
    kept = str(ApiKey.objects.filter(pk=alice.key.pk).values().get())
    assert alice.plain not in kept
    assert alice.plain.rpartition("-")[2] not in kept
    assert alice.key.prefix in alice.plain


def test_a_new_organization_is_made_once(alice: Tenant, bob: Tenant) -> None:
    assert alice.key.organization == bob.key.organization
    assert Organization.objects.count() == 1


def test_a_revoked_key_is_not_found(alice: Tenant) -> None:
    alice.key.revoked_at = timezone.now()
    alice.key.save()
    assert find_key(alice.plain) is None


def test_a_right_prefix_is_not_enough(alice: Tenant) -> None:
    assert find_key(alice.plain[:-1] + ("a" if alice.plain[-1] != "a" else "b")) is None


@pytest.mark.parametrize("plain", ["", "nonsense", "sk-sluice-wrong", "sk-sluice-12345678-short"])
def test_it_rejects_what_is_no_key(plain: str) -> None:
    assert prefix_of(plain) is None
    assert find_key(plain) is None


def test_each_key_is_another() -> None:
    assert len({create_key(name="x")[1] for _ in range(20)}) == 20


@pytest.mark.parametrize(
    ("api_key", "authorization", "plain"),
    [
        ("a", "", "a"),
        ("", "Bearer a", "a"),
        ("", "bearer  a ", "a"),
        (" a ", "Bearer b", "a"),
        ("", "Basic a", ""),
        ("", "Bearer", ""),
        ("", "", ""),
    ],
)
def test_a_key_comes_in_either_header(api_key: str, authorization: str, plain: str) -> None:
    assert plain_key(api_key, authorization) == plain
