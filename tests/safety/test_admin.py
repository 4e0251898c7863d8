"""Policies and blocklists in the admin."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from accounts.models import Organization
from inference.protocol.policies import Policy, Rule
from safety.models import Blocklist, SafetyPolicy, SafetyRule
from safety.publishing import definition

pytestmark = pytest.mark.django_db

POLICIES = "/admin/safety/safetypolicy/"
BLOCKLISTS = "/admin/safety/blocklist/"


def form_of(*rules: dict[str, Any], **more: Any) -> dict[str, Any]:
    usual = {"side": "output", "position": "1", "check_name": "patterns", "categories": "", "threshold": "0.5",
             "model": "", "action": "enforce"}  # fmt: skip
    form: dict[str, Any] = {"name": "mine", "strictness": "15", "lookahead_tokens": "4", "keep_text_days": "7"}
    form |= {"rules-TOTAL_FORMS": str(len(rules)), "rules-INITIAL_FORMS": "0"} | more
    for number, rule in enumerate(rules):
        form |= {f"rules-{number}-{name}": value for name, value in (usual | rule).items()}
    return form


def text_of(response: Any) -> str:
    return str(response.content.decode())


def by_name(name: str) -> str:
    return f"{POLICIES}{SafetyPolicy.objects.get(name=name).pk}/"


class TestPolicies:
    def test_one_is_made_with_rules_in_order(self, admin_client: Client) -> None:
        blocklist = Blocklist.objects.create(name="rude", phrases="oaf")
        r = admin_client.post(f"{POLICIES}add/", form_of(
            {"position": "2", "action": "flag"},
            {"categories": " secrets, blocklist.rude,secrets"},
            {"side": "prompt", "check_name": "toxicity", "threshold": "0.8"},
            blocklists=[blocklist.pk],
        ))  # fmt: skip
        assert r.status_code == 302
        assert definition(SafetyPolicy.objects.get(name="mine"), {"rude": "0a"}) == Policy(
            name="mine",
            lookahead_tokens=4,
            keep_text_days=7,
            prompt=(Rule(check="toxicity", threshold=0.8, action="enforce"),),
            output=(
                Rule(check="patterns", categories=("secrets", "blocklist.rude"), action="enforce"),
                Rule(check="patterns", action="flag"),
            ),
            blocklists={"rude": "0a"},
        )

    @pytest.mark.parametrize(
        ("form", "complaint"),
        [
            (form_of(name="a b"), "small letters, digits"),
            (form_of(lookahead_tokens="300"), "expected 0 to 256."),
            (form_of({"categories": "secret"}), "not secret."),
            (form_of({"check_name": "transformer"}), "expected for the check transformer"),
            (form_of({"model": "folder"}), "expected for the check transformer"),
            (form_of({"threshold": "2"}), "expected more than 0, and at most 1."),
            (form_of({"check_name": ""}), "This field is required."),
        ],
    )
    def test_it_rejects_what_it_cannot_be(self, admin_client: Client, form: dict[str, Any], complaint: str) -> None:
        r = admin_client.post(f"{POLICIES}add/", form)
        assert r.status_code == 200
        assert complaint in text_of(r)
        assert not SafetyPolicy.objects.filter(name="mine").exists()

    def test_changes_are_on_record(self, admin_client: Client) -> None:
        admin_client.post(f"{POLICIES}add/", form_of({}))
        rule = SafetyRule.objects.get(policy__name="mine")
        change = form_of({"id": str(rule.pk), "action": "flag"}, **{"rules-INITIAL_FORMS": "1"})
        assert admin_client.post(f"{by_name('mine')}change/", change).status_code == 302
        assert "Changed Action for rule" in LogEntry.objects.latest("pk").get_change_message()

    def test_what_is_built_in_is_to_be_read(self, admin_client: Client) -> None:
        page = text_of(admin_client.get(f"{by_name('strict')}change/"))
        assert "all that are active" in page
        assert 'name="_save"' not in page
        assert admin_client.post(f"{by_name('strict')}change/", form_of(name="strict")).status_code == 403
        assert admin_client.post(f"{by_name('strict')}delete/", {"post": "yes"}).status_code == 403

    def test_and_copied(self, admin_client: Client) -> None:
        Blocklist.objects.create(name="rude", phrases="oaf")
        for name in ("strict-copy", "strict-copy-2"):
            original = SafetyPolicy.objects.get(name="strict")
            r = admin_client.post(POLICIES, {"action": "copy", "_selected_action": [original.pk]})
            assert r.headers["location"] == f"{by_name(name)}change/"
            copy = SafetyPolicy.objects.get(name=name)
            assert (copy.built_in, copy.strictness) == (False, original.strictness)
            ours, theirs = (definition(row, {"rude": "0a"}) for row in (copy, original))
            assert (ours.prompt, ours.output, ours.blocklists) == (theirs.prompt, theirs.output, theirs.blocklists)
        assert LogEntry.objects.latest("pk").change_message == "Copied from strict."

    @pytest.mark.parametrize("bulk", [False, True])
    def test_one_in_use_stays(self, admin_client: Client, bulk: bool) -> None:
        policy = SafetyPolicy.objects.create(name="mine")
        Organization.objects.create(name="acme", policy="mine")
        if bulk:
            form = {"action": "delete_selected", "_selected_action": [policy.pk], "post": "yes"}
            r = admin_client.post(POLICIES, form)
        else:
            r = admin_client.post(f"{by_name('mine')}delete/", {"post": "yes"})
        assert "mine is in use by the organisation acme" in text_of(r)
        r = admin_client.post(f"{by_name('mine')}change/", form_of(name="other"))
        assert "mine is in use by the organisation acme" in text_of(r)
        assert SafetyPolicy.objects.filter(name="mine").exists()

    def test_one_that_nobody_uses_goes(self, admin_client: Client) -> None:
        SafetyPolicy.objects.create(name="mine")
        admin_client.post(f"{by_name('mine')}delete/", {"post": "yes"})
        assert not SafetyPolicy.objects.filter(name="mine").exists()

    def test_more_rows_cost_no_more_queries(
        self, admin_client: Client, django_assert_max_num_queries: DjangoAssertNumQueries
    ) -> None:
        for number in range(20):
            SafetyRule.objects.create(policy=SafetyPolicy.objects.create(name=f"p{number}"), check_name="patterns")
        with django_assert_max_num_queries(8):
            assert "p19" in text_of(admin_client.get(POLICIES))


class TestBlocklists:
    def test_it_works(self, admin_client: Client) -> None:
        r = admin_client.post(f"{BLOCKLISTS}add/", {"name": "rude", "phrases": "oaf\r\nlout", "active": "on"})
        assert r.status_code == 302
        assert Blocklist.objects.get().phrase_list == ["oaf", "lout"]
        assert "rude" in text_of(admin_client.get(BLOCKLISTS))

    def test_thousands_of_phrases_fit(self, admin_client: Client) -> None:
        phrases = "\r\n".join(f"phrase number {number}" for number in range(20_000))
        assert admin_client.post(f"{BLOCKLISTS}add/", {"name": "long", "phrases": phrases}).status_code == 302

    def test_it_rejects_what_will_not_do(self, admin_client: Client) -> None:
        r = admin_client.post(f"{BLOCKLISTS}add/", {"name": "rude", "phrases": "x" * 201})
        assert "expected at most 200 characters" in text_of(r)
