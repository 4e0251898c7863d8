"""Policies, rules and blocklists: what they may be."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import ProtectedError

from accounts.keys import create_key, revoke
from accounts.models import Organization
from inference.protocol.policies import built_in
from safety.models import (
    PHRASE_LIMIT,
    PHRASES_LIMIT,
    Blocklist,
    SafetyPolicy,
    SafetyRule,
    known_policy,
    policies_from,
    policy_names,
)
from safety.publishing import definition

pytestmark = pytest.mark.django_db


def rule_of(**facts: Any) -> SafetyRule:
    policy, _ = SafetyPolicy.objects.get_or_create(name="mine")
    return SafetyRule(**{"policy": policy, "check_name": "patterns", "action": "flag"} | facts)


class TestBuiltIn:
    def test_they_are_those_of_the_protocol(self) -> None:
        found = {row.name: definition(row, {}) for row in SafetyPolicy.objects.exclude(name="off")}
        assert found == built_in({})

    def test_the_laxest_comes_first(self) -> None:
        assert policy_names() == ["off", "standard", "strict-output", "strict"]

    def test_they_stay(self) -> None:
        with pytest.raises(ProtectedError, match="built in"), transaction.atomic():
            SafetyPolicy.objects.all().delete()
        policy = SafetyPolicy.objects.get(name="strict")
        policy.name = "stricter"
        with pytest.raises(ValidationError, match="strict is built in"):
            policy.full_clean()


class TestPolicies:
    def test_it_works(self) -> None:
        policy = SafetyPolicy(name="mine", lookahead_tokens=3, keep_text_days=7)
        policy.full_clean()
        policy.save()
        policy.name = "other"
        policy.full_clean()

    @pytest.mark.parametrize(
        ("facts", "field"),
        [
            ({"name": "two words"}, "name"),
            ({"name": "a@b"}, "name"),
            ({"name": "Upper"}, "name"),
            ({"name": "x" * 41}, "name"),
            ({"name": "strict"}, "name"),
            ({"lookahead_tokens": 257}, "lookahead_tokens"),
            ({"keep_text_days": -1}, "keep_text_days"),
        ],
    )
    def test_it_rejects_what_it_cannot_be(self, facts: dict[str, Any], field: str) -> None:
        with pytest.raises(ValidationError) as refused:
            SafetyPolicy(**{"name": "mine"} | facts).full_clean()
        assert field in refused.value.message_dict

    def test_one_in_use_stays(self) -> None:
        policy = SafetyPolicy.objects.create(name="mine")
        Organization.objects.create(name="acme", policy="mine")
        key, _ = create_key(name="laptop", organization="acme", policy="mine")
        assert policy.users() == ["the organisation acme", f"the key laptop ({key.prefix}…) of acme"]
        policy.name = "other"
        with pytest.raises(ValidationError, match="mine is in use by the organisation acme, the key laptop"):
            policy.full_clean()
        with pytest.raises(ProtectedError, match="Give them another policy first"):
            SafetyPolicy.objects.filter(name="mine").delete()

    def test_one_that_only_revoked_keys_had_goes(self) -> None:
        SafetyPolicy.objects.create(name="mine")
        key, _ = create_key(name="laptop", policy="mine")
        revoke(key)
        SafetyPolicy.objects.filter(name="mine").delete()
        assert "mine" not in policy_names()

    def test_those_from_one_on(self) -> None:
        SafetyPolicy.objects.create(name="mine", strictness=20)
        assert policies_from("strict-output") == ["mine", "strict-output", "strict"]
        assert policies_from("standard") == ["standard", "mine", "strict-output", "strict"]
        assert policies_from("unknown") == []

    def test_a_name_that_nobody_has_is_refused_with_those_there_are(self) -> None:
        known_policy("strict")
        with pytest.raises(ValidationError, match="expected off, standard, strict-output, strict"):
            known_policy("strictest")


class TestRules:
    @pytest.mark.parametrize(
        "facts",
        [
            {"categories": []},
            {"categories": ["secrets", "personal_data.card", "personal_data.us_ssn", "blocklist", "blocklist.rude"]},
            {"check_name": "toxicity", "categories": ["toxicity"], "threshold": 1},
            {"check_name": "transformer", "categories": ["any label"], "model": "folder"},
        ],
    )
    def test_it_works(self, facts: dict[str, Any]) -> None:
        Blocklist.objects.create(name="rude", phrases="oaf")
        rule_of(**facts).full_clean()

    @pytest.mark.parametrize(
        ("facts", "field"),
        [
            ({"check_name": "magic"}, "check_name"),
            ({"action": "shout"}, "action"),
            ({"side": "back"}, "side"),
            ({"threshold": 0}, "threshold"),
            ({"threshold": 1.01}, "threshold"),
            ({"model": "folder"}, "model"),
            ({"check_name": "transformer"}, "model"),
            ({"categories": ["secret"]}, "categories"),
            ({"categories": ["blocklist.none"]}, "categories"),
            ({"categories": "secrets"}, "categories"),
            ({"check_name": "toxicity", "categories": ["secrets"]}, "categories"),
        ],
    )
    def test_it_rejects_what_it_cannot_be(self, facts: dict[str, Any], field: str) -> None:
        with pytest.raises(ValidationError) as refused:
            rule_of(**facts).full_clean()
        assert field in refused.value.message_dict


class TestBlocklists:
    def test_phrases_are_lines(self) -> None:
        blocklist = Blocklist(name="rude", phrases=" oaf \r\n\nYou lout\noaf")
        blocklist.full_clean()
        assert blocklist.phrase_list == ["oaf", "You lout"]

    @pytest.mark.parametrize(
        ("facts", "field"),
        [
            ({"phrases": ""}, "phrases"),
            ({"phrases": "\n \n"}, "phrases"),
            ({"phrases": "good\n" + "x" * (PHRASE_LIMIT + 1)}, "phrases"),
            ({"phrases": "good\n\u200b\u200d"}, "phrases"),
            ({"phrases": "good\n\u0301\u0301"}, "phrases"),
            ({"phrases": "good\n\u2800"}, "phrases"),
            ({"phrases": "\n".join(map(str, range(PHRASES_LIMIT + 1)))}, "phrases"),
            ({"name": "a.b"}, "name"),
        ],
    )
    def test_it_rejects_what_it_cannot_be(self, facts: dict[str, str], field: str) -> None:
        with pytest.raises(ValidationError) as refused:
            Blocklist(**{"name": "rude", "phrases": "oaf"} | facts).full_clean()
        assert field in refused.value.message_dict

    def test_one_that_a_rule_names_keeps_its_name(self) -> None:
        blocklist = Blocklist.objects.create(name="rude", phrases="oaf")
        rule_of(categories=["blocklist.rude"]).save()
        blocklist.name = "ruder"
        with pytest.raises(ValidationError, match="mine has rules for rude"):
            blocklist.full_clean()
