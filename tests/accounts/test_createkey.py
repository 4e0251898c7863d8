"""`manage.py createkey`."""

from __future__ import annotations

from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.utils import timezone

from accounts.keys import find_key
from accounts.models import ApiKey, Organization
from accounts.terms import LIMITS
from safety.models import SafetyPolicy

pytestmark = pytest.mark.django_db


def test_it_works() -> None:
    out, err = StringIO(), StringIO()
    call_command("createkey", "laptop", "--org", "acme", stdout=out, stderr=err)
    key = find_key(out.getvalue().strip())
    assert key is not None, "the key stands alone on stdout"
    assert (key.name, key.organization.name) == ("laptop", "acme")
    assert key.prefix in err.getvalue()


def test_it_rejects_a_missing_name() -> None:
    with pytest.raises(CommandError, match="name"):
        call_command("createkey")


def test_a_name_may_come_again_and_is_told_of() -> None:
    err = StringIO()
    for organization in ("acme", "other", "acme"):
        assert "another active key" not in err.getvalue()
        call_command("createkey", "laptop", "--org", organization, stdout=StringIO(), stderr=err)
    assert "acme has another active key called laptop" in err.getvalue()
    assert ApiKey.objects.count() == 3


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([""], "the key needs 1 to 100 characters"),
        (["  "], "the key needs 1 to 100 characters"),
        (["x" * 101], "the key needs 1 to 100 characters"),
        (["two\nlines"], "no line breaks"),
        (["x", "--org", ""], "the organisation needs 1 to 100 characters"),
        (["x", "--org", "x" * 101], "the organisation needs 1 to 100 characters"),
    ],
)
def test_it_rejects_a_name_that_will_not_do(arguments: list[str], complaint: str) -> None:
    with pytest.raises(CommandError, match=complaint):
        call_command("createkey", *arguments)
    assert not Organization.objects.exists()


def test_limits_and_bounds_are_kept() -> None:
    words = "laptop --rpm 1 --itpm 2 --otpm 3 --max-streams 4"
    words += " --budget-tokens 5 --budget-tokens-day 6 --budget-tokens-month 7"
    more = "--priority batch --policy strict --scope admin --scope usage,inference --models a,b --shadow --expires 30d"
    call_command("createkey", *words.split(), *more.split(), stdout=StringIO(), stderr=StringIO())
    key = ApiKey.objects.get()
    assert [getattr(key, name) for name in LIMITS] == [1, 2, 3, 4, 6, 7, 5]
    assert (key.priority, key.policy, key.shadow) == ("batch", "strict", True)
    assert (key.scopes, key.allowed_models) == (["admin", "usage", "inference"], ["a", "b"])
    assert key.expires_at is not None
    assert timedelta(days=29) < key.expires_at - timezone.now() <= timedelta(days=30)


def test_a_policy_of_ones_own() -> None:
    SafetyPolicy.objects.create(name="mine")
    call_command("createkey", "laptop", "--policy", "mine", stdout=StringIO(), stderr=StringIO())
    assert ApiKey.objects.get().policy == "mine"


def test_without_them_a_key_is_unlimited() -> None:
    call_command("createkey", "laptop", stdout=StringIO(), stderr=StringIO())
    key = ApiKey.objects.get()
    assert all(getattr(key, name) is None for name in LIMITS)
    assert (key.scopes, key.allowed_models, key.expires_at) == (["inference", "usage"], None, None)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("--rpm 0", "--rpm: expected a whole number from 1"),
        ("--rpm=-1", "--rpm: expected"),
        ("--budget-tokens 1e6", "--budget-tokens: expected"),
        ("--max-streams 9999999999999", "--max-streams: expected"),
        ("--priority urgent", "--priority: invalid choice"),
        ("--policy none", "policy: expected off, standard, strict-output, strict"),
        ("--scope root", "--scope: expected some of inference, usage, admin"),
        ("--scope ,", "--scope: expected"),
        ("--models ,", "--models: expected names between commas"),
        ("--expires 2001-01-01", "--expires: expected a time to come"),
        ("--expires soon", "--expires: expected a duration such as 30d"),
        ("--expires 99999999999d", "--expires: expected a duration"),
        ("--expires 999999999d", "--expires: expected a duration"),
    ],
)
def test_it_rejects_an_option_that_will_not_do(words: str, complaint: str) -> None:
    with pytest.raises(CommandError, match=complaint):
        call_command("createkey", "laptop", *words.split())
    assert not Organization.objects.exists()


def test_it_rejects_what_the_organisation_would_make_nothing_of() -> None:
    Organization.objects.create(name="acme", scopes=["inference"], allowed_models=["small"])
    for words, complaint in (
        ("--scope usage", "scopes: the organisation does not have usage"),
        ("--scope inference --models large", "allowed_models: the organisation may not use large"),
    ):
        with pytest.raises(CommandError, match=complaint):
            call_command("createkey", "laptop", "--org", "acme", *words.split())


def test_an_unnamed_scope_that_the_organisation_lacks_is_left_out() -> None:
    Organization.objects.create(name="acme", scopes=["inference"])
    call_command("createkey", "laptop", "--org", "acme", stdout=StringIO(), stderr=StringIO())
    assert ApiKey.objects.get().scopes == ["inference"]
