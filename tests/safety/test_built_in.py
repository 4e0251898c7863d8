"""The built-in policies follow the program."""

from __future__ import annotations

import pytest
from django.apps import apps

from inference.protocol.policies import built_in
from safety.built_in import keep_built_in
from safety.models import SafetyPolicy, SafetyRule
from safety.publishing import definition

pytestmark = pytest.mark.django_db


def migrate() -> None:
    keep_built_in(apps=apps, using="default")


def test_what_an_older_version_had_is_brought_up_to_date() -> None:
    SafetyPolicy.objects.filter(name="strict").update(lookahead_tokens=1, description="old")
    SafetyRule.objects.filter(policy__name="strict", side="output").delete()
    SafetyRule.objects.filter(policy__name="standard").update(threshold=0.1)
    migrate()
    found = {row.name: definition(row, {}) for row in SafetyPolicy.objects.exclude(name="off")}
    assert found == built_in({})


def test_what_is_as_it_should_be_stays() -> None:
    before = list(SafetyRule.objects.values_list("pk", flat=True))
    migrate()
    assert list(SafetyRule.objects.values_list("pk", flat=True)) == before


def test_somebodys_own_of_the_same_name_is_left_alone() -> None:
    SafetyPolicy.objects.filter(name="strict").update(built_in=False, lookahead_tokens=1)
    migrate()
    assert SafetyPolicy.objects.get(name="strict").lookahead_tokens == 1
