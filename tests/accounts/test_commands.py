"""`manage.py revokekey`, `rotatekey` and `keys`. `createkey` has a file of its own."""

from __future__ import annotations

import json
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from accounts.finding import find_caller
from accounts.keys import create_key, find_key, revoke, rotate, suspend
from accounts.models import ApiKey
from tests.conftest import Tenant

pytestmark = pytest.mark.django_db


def run(*words: str) -> tuple[str, str]:
    out, err = StringIO(), StringIO()
    call_command(*words, stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


class TestRevokeKey:
    def test_it_works(self, alice: Tenant, bob: Tenant) -> None:
        assert "Revoked alice" in run("revokekey", "alice")[0]
        assert find_key(alice.plain) is None
        assert find_key(bob.plain) == bob.key

    @pytest.mark.parametrize("part", [slice(None), slice(0, 16), slice(0, 18)])
    def test_a_key_is_known_by_what_is_seen_of_it(self, alice: Tenant, bob: Tenant, part: slice) -> None:
        run("revokekey", alice.key.prefix[part])
        assert (find_key(alice.plain), find_key(bob.plain)) == (None, bob.key)

    @pytest.mark.parametrize("kind", ["whole", "id", "dots"])
    def test_or_by_more(self, alice: Tenant, kind: str) -> None:
        word = {"whole": alice.plain, "id": alice.key.pk, "dots": f"{alice.key.prefix}…"}[kind]
        out, err = run("revokekey", word)
        assert find_key(alice.plain) is None
        assert alice.plain not in out + err

    def test_an_ambiguous_name_is_refused_with_the_candidates(self, alice: Tenant) -> None:
        others = [create_key(name="alice", organization=name)[0] for name in ("alpha", "beta")]
        with pytest.raises(CommandError) as refusal:
            run("revokekey", "alice")
        assert all(key.prefix in str(refusal.value) for key in (alice.key, *others))
        assert not ApiKey.objects.exclude(revoked_at=None).exists()
        run("revokekey", "alice", "--org", "beta")
        assert [key.organization.name for key in ApiKey.objects.exclude(revoked_at=None)] == ["beta"]

    def test_a_name_that_only_revoked_keys_have_is_not_ambiguous(self, alice: Tenant) -> None:
        revoke(create_key(name="alice", organization="alpha")[0])
        run("revokekey", "alice")
        assert find_key(alice.plain) is None
        with pytest.raises(CommandError, match="'alice' is revoked already"):
            run("revokekey", "alice")

    def test_the_start_of_all_keys_names_none(self, alice: Tenant) -> None:
        with pytest.raises(CommandError, match="No key has"):
            run("revokekey", "sk-sluice-")

    def test_a_key_that_is_not_there_is_never_repeated_whole(self, alice: Tenant) -> None:
        stranger = alice.plain[:-1] + "_"
        with pytest.raises(CommandError) as refusal:
            run("revokekey", stranger)
        assert stranger not in str(refusal.value)

    def test_the_text_before_a_rotation_ends_alone(self, alice: Tenant) -> None:
        before = alice.key.prefix
        plain = rotate(alice.key, overlap=timedelta(hours=1))
        assert "goes on" in run("revokekey", before)[0]
        assert find_caller(alice.plain) is None
        assert find_key(plain) == alice.key


class TestRotateKey:
    def test_it_works(self, alice: Tenant) -> None:
        out, err = run("rotatekey", "alice")
        assert find_key(out.strip()) == alice.key, "the key stands alone on stdout"
        old = find_caller(alice.plain)
        assert old is not None
        assert old.expires_at == pytest.approx((timezone.now() + timedelta(hours=24)).timestamp(), abs=60)
        assert f"{alice.key.prefix}… works until" in err

    def test_the_overlap_is_as_asked(self, alice: Tenant) -> None:
        run("rotatekey", "alice", "--overlap", "30m")
        (key,) = ApiKey.objects.all()
        assert key.overlap is not None
        assert key.overlap < timezone.now() + timedelta(minutes=31)
        assert "ends now" in run("rotatekey", "alice", "--overlap", "0")[1]
        assert ApiKey.objects.get().overlap is None

    @pytest.mark.parametrize("overlap", ["soon", "-1h", "1.5h", "5", ""])
    def test_it_rejects_what_is_no_duration(self, alice: Tenant, overlap: str) -> None:
        with pytest.raises(CommandError, match="expected 0 or a duration"):
            run("rotatekey", "alice", f"--overlap={overlap}")

    def test_it_rejects_a_key_that_expired(self, alice: Tenant) -> None:
        ApiKey.objects.update(expires_at=timezone.now())
        with pytest.raises(CommandError, match="expired"):
            run("rotatekey", "alice")


class TestKeys:
    def test_it_works(self, alice: Tenant, charlie: Tenant) -> None:
        create_key(name="limited", organization="alpha", rpm=60, budget_tokens=1_500_000, shadow=True)
        suspend(charlie.key.organization)
        rows = run("keys")[0].splitlines()
        assert rows[0].split() == ["ORGANISATION", "NAME", "PREFIX", "SCOPES", "STATE", "LIMITS", "LAST", "USED"]
        assert [row.split()[:2] for row in rows[1:]] == [["alpha", "alice"], ["alpha", "limited"], ["gamma", "charlie"]]
        assert "60 rpm, 1.5M tokens (shadow)" in rows[2]
        assert "suspended" in rows[3]

    def test_revoked_ones_are_asked_for(self, alice: Tenant) -> None:
        revoke(alice.key)
        assert run("keys") == ("", "There are no keys. `manage.py createkey NAME` makes one.\n")
        assert "revoked" in run("keys", "--all")[0]

    def test_json_has_all_but_the_secret(self, alice: Tenant, charlie: Tenant) -> None:
        out, _ = run("keys", "--org", "alpha", "--json")
        (row,) = json.loads(out)
        assert (row["name"], row["organization"], row["state"], row["rpm"]) == ("alice", "alpha", "active", None)
        assert alice.key.digest not in out

    def test_an_empty_list_is_one_too(self, db: None) -> None:
        assert json.loads(run("keys", "--json")[0]) == []

    def test_it_rejects_an_unknown_organisation(self, db: None) -> None:
        with pytest.raises(CommandError, match="no organisation called nobody"):
            run("keys", "--org", "nobody")

    def test_it_costs_one_query(
        self, alice: Tenant, bob: Tenant, django_assert_num_queries: DjangoAssertNumQueries
    ) -> None:
        with django_assert_num_queries(1):
            run("keys")
