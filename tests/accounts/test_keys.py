"""Keys: shown once, kept as prefix and digest; rotated and revoked."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.core.exceptions import ValidationError
from django.utils import timezone

from accounts.finding import find_caller
from accounts.keys import KeyIsOver, create_key, end_overlap, find_key, revoke, rotate
from accounts.models import ApiKey, Organization
from tests.conftest import Tenant

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)


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


def test_what_will_not_do_makes_nothing() -> None:
    with pytest.raises(ValidationError, match="rpm"):
        create_key(name="x", organization="new", rpm=0)
    assert not Organization.objects.exists()


def test_a_revoked_key_is_not_found(alice: Tenant) -> None:
    alice.key.revoked_at = timezone.now()
    alice.key.save()
    assert find_key(alice.plain) is None


def test_a_right_prefix_is_not_enough(alice: Tenant) -> None:
    assert find_key(alice.plain[:-1] + ("a" if alice.plain[-1] != "a" else "b")) is None


def test_each_key_is_another() -> None:
    assert len({create_key(name="x")[1] for _ in range(20)}) == 20


class TestRotate:
    def test_both_texts_are_the_same_key_for_a_while(self, alice: Tenant) -> None:
        plain = rotate(alice.key, overlap=HOUR)
        old, new = find_caller(alice.plain), find_caller(plain)
        assert old is not None
        assert new is not None
        assert (old.key, new.key) == (alice.key.id, alice.key.id)
        assert old.expires_at == pytest.approx((timezone.now() + HOUR).timestamp(), abs=10)
        assert new.expires_at is None

    def test_without_overlap_the_old_text_ends(self, alice: Tenant) -> None:
        plain = rotate(alice.key, overlap=timedelta())
        assert find_caller(alice.plain) is None
        assert find_key(plain) == alice.key

    def test_another_rotation_ends_the_oldest(self, alice: Tenant) -> None:
        second = rotate(alice.key, overlap=HOUR)
        third = rotate(alice.key, overlap=HOUR)
        assert find_caller(alice.plain) is None
        assert find_caller(second) is not None
        assert find_caller(third) is not None

    def test_an_overlap_can_be_ended(self, alice: Tenant) -> None:
        plain = rotate(alice.key, overlap=HOUR)
        end_overlap(alice.key)
        assert find_caller(alice.plain) is None
        assert find_key(plain) == alice.key

    def test_of_two_at_once_one_is_told(self, alice: Tenant) -> None:
        other = ApiKey.objects.get(pk=alice.key.pk)
        plain = rotate(alice.key, overlap=HOUR)
        with pytest.raises(KeyIsOver):
            rotate(other, overlap=HOUR)
        assert find_key(plain) == alice.key

    def test_not_after_the_end(self, alice: Tenant) -> None:
        revoke(alice.key)
        for change in (revoke, end_overlap):
            with pytest.raises(KeyIsOver):
                change(ApiKey.objects.get(pk=alice.key.pk))
        assert not ApiKey.objects.get(pk=alice.key.pk).active
