"""`manage.py createkey`."""

from __future__ import annotations

from io import StringIO

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from accounts.keys import find_key
from accounts.models import ApiKey, Organization

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
