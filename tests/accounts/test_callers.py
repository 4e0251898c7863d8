"""What a request knows of its key and its organisation."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from accounts.callers import Caller, Quota
from accounts.finding import find_caller, find_caller_by_id
from accounts.keys import create_key, revoke, suspend
from accounts.models import ApiKey, Organization
from accounts.terms import DEFAULT_POLICY, DEFAULT_PRIORITY
from common.errors import AuthenticationFailed, PermissionDenied
from tests.conftest import Tenant

pytestmark = pytest.mark.django_db


def caller(tenant: Tenant) -> Caller:
    found = find_caller(tenant.plain)
    assert found is not None
    assert found == find_caller_by_id(tenant.key.id)
    return found


def test_it_works(alice: Tenant) -> None:
    ApiKey.objects.update(rpm=5, priority="batch", policy="strict", shadow=True, allowed_models=["a"])
    Organization.objects.update(budget_tokens=1000, max_streams=3)
    found = caller(alice)
    assert found.key_quota == Quota(rpm=5, shadow=True)
    assert found.organization_quota == Quota(budget_tokens=1000, max_streams=3)
    assert (found.priority, found.policy, found.allowed_models) == ("batch", "strict", frozenset({"a"}))
    found.check(needs="inference")


def test_it_costs_one_query(alice: Tenant, django_assert_num_queries: DjangoAssertNumQueries) -> None:
    with django_assert_num_queries(1):
        find_caller(alice.plain)


def test_the_organisation_decides_where_the_key_does_not(alice: Tenant) -> None:
    assert (caller(alice).priority, caller(alice).policy) == (DEFAULT_PRIORITY, DEFAULT_POLICY)
    Organization.objects.update(priority="priority", policy="strict")
    assert (caller(alice).priority, caller(alice).policy) == ("priority", "strict")


@pytest.mark.parametrize(
    ("key", "organization", "both"), [(None, None, None), (["a", "b"], None, {"a", "b"}), (["a", "b"], ["b"], {"b"})]
)
def test_a_model_has_to_be_open_to_both(
    alice: Tenant, key: list[str] | None, organization: list[str] | None, both: set[str] | None
) -> None:
    ApiKey.objects.update(allowed_models=key)
    Organization.objects.update(allowed_models=organization)
    assert caller(alice).allowed_models == both


def test_a_model_that_is_not_open_is_refused(alice: Tenant) -> None:
    ApiKey.objects.update(allowed_models=["a"])
    caller(alice).check_model("a")
    with pytest.raises(PermissionDenied, match="model: this key may not use b"):
        caller(alice).check_model("b")


def test_scopes_are_what_the_organisation_still_has(alice: Tenant) -> None:
    Organization.objects.update(scopes=["usage"])
    assert caller(alice).scopes == {"usage"}
    with pytest.raises(PermissionDenied, match="lacks the scope inference"):
        caller(alice).check(needs="inference")


@pytest.mark.parametrize("level", [ApiKey, Organization])
def test_it_ends_with_the_first_of_both(alice: Tenant, level: type[ApiKey] | type[Organization]) -> None:
    level.objects.update(expires_at=timezone.now() + timedelta(hours=1))
    caller(alice).check(needs="usage")
    level.objects.update(expires_at=timezone.now())
    with pytest.raises(AuthenticationFailed, match="expired at"):
        caller(alice).check(needs="usage")


def test_a_revoked_key_is_told_so(alice: Tenant) -> None:
    revoke(alice.key)
    with pytest.raises(AuthenticationFailed, match="was revoked"):
        caller(alice).check(needs="usage")


def test_a_suspended_organisation_is_told_so(alice: Tenant, charlie: Tenant) -> None:
    suspend(alice.key.organization)
    with pytest.raises(PermissionDenied, match="suspended"):
        caller(alice).check(needs="usage")
    caller(charlie).check(needs="usage")


def test_it_crosses_a_wire(alice: Tenant) -> None:
    made = create_key(name="x", rpm=1, allowed_models=["a"], expires_at=timezone.now() + timedelta(days=1))
    for found in (caller(alice), caller(Tenant(*made))):
        assert msgspec.json.decode(msgspec.json.encode(found), type=Caller) == found


def test_nobody_is_nobody() -> None:
    assert find_caller("nonsense") is None
    assert find_caller_by_id("key_nobody") is None
