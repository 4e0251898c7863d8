"""API keys in front of DRF's views."""

from __future__ import annotations

import pytest
from django.db import OperationalError
from django.test import RequestFactory
from pytest_django import DjangoAssertNumQueries
from rest_framework.request import Request

from accounts import plain
from accounts.cache import CALLERS
from accounts.keys import revoke
from api import authentication
from api.authentication import KeyAuthentication, caller_of
from common.errors import AuthenticationFailed, Unavailable
from tests.conftest import Tenant

pytestmark = pytest.mark.django_db


def authenticated(key: str) -> Request:
    request = Request(RequestFactory().get("/", headers={"x-api-key": key}))
    request.user, _ = KeyAuthentication().authenticate(request)  # type: ignore[assignment]  # a caller, no Django user
    return request


def fail(key: str) -> None:
    raise OperationalError("away")


def test_it_works(alice: Tenant) -> None:
    assert caller_of(authenticated(alice.plain)).key == alice.key.pk


def test_a_warm_key_costs_no_query(alice: Tenant, django_assert_num_queries: DjangoAssertNumQueries) -> None:
    authenticated(alice.plain)
    CALLERS.heard()
    with django_assert_num_queries(0):
        authenticated(alice.plain)


def test_a_change_made_here_counts_at_once(alice: Tenant) -> None:
    authenticated(alice.plain)
    CALLERS.heard()
    revoke(alice.key)
    with pytest.raises(AuthenticationFailed, match="was revoked"):
        authenticated(alice.plain)


@pytest.mark.parametrize("key", ["", "nonsense", pytest.param(plain.mint()[1][:-1] + "_", id="mistyped")])
def test_what_is_no_key_does_not_reach_the_database(
    key: str, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(0), pytest.raises(AuthenticationFailed):
        authenticated(key)


def test_a_key_that_is_gone_reaches_it_once(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    _, key = plain.mint()
    with django_assert_num_queries(1):
        for _ in range(5):
            with pytest.raises(AuthenticationFailed):
                authenticated(key)


def test_without_the_database_a_key_that_was_good_goes_on(alice: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    authenticated(alice.plain)
    CALLERS.doubt()
    monkeypatch.setattr(authentication, "find_caller", fail)
    monkeypatch.setattr("accounts.cache.FRESH_S", 0)
    assert caller_of(authenticated(alice.plain)).key == alice.key.pk


def test_and_one_that_is_not_remembered_has_to_wait(alice: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authentication, "find_caller", fail)
    with pytest.raises(Unavailable):
        authenticated(alice.plain)
