"""`manage.py createkey`."""

from __future__ import annotations

from io import StringIO

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from accounts.keys import find_key

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
