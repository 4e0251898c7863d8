"""/v1/organization and /v1/organization/keys."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts.finding import find_caller
from accounts.keys import create_key, find_key, rotate
from accounts.models import ApiKey, Organization
from safety.models import SafetyPolicy
from tests.conftest import Tenant

pytestmark = pytest.mark.django_db

KEYS = "/v1/organization/keys"
Ask = Callable[..., Any]


@pytest.fixture
def admin(alice: Tenant) -> Tenant:
    """A key of Alice's organisation that manages keys."""
    return Tenant(*create_key(name="admin", organization="alpha", scopes=["admin"]))


@pytest.fixture
def ask(client: Client, admin: Tenant) -> Ask:
    """Send a request with the admin key."""

    def send(method: str, path: str, body: Any = None) -> Any:
        raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        return client.generic(method, path, raw, "application/json", headers=admin.headers)

    return send


def complaint_of(response: Any, status: int = 400) -> str:
    assert response.status_code == status, response.content
    return str(response.json()["error"]["message"])


class TestOrganization:
    def test_it_works(self, ask: Ask) -> None:
        Organization.objects.update(rpm=60, policy="strict")
        r = ask("GET", "/v1/organization")
        body = r.json()
        assert (body["name"], body["rpm"], body["budget_tokens"]) == ("alpha", 60, None)
        assert (body["policy"], body["priority"]) == ("strict", "standard")
        assert body["scopes"] == ["inference", "usage", "admin"]
        assert r.headers["cache-control"] == "no-store"

    def test_it_needs_the_scope(self, client: Client, alice: Tenant) -> None:
        for path in ("/v1/organization", KEYS, f"{KEYS}/{alice.key.pk}"):
            assert complaint_of(client.get(path, headers=alice.headers), 403) == "This key lacks the scope admin."


class TestCreate:
    def test_it_works(self, ask: Ask) -> None:
        r = ask("POST", KEYS, {"name": "new", "rpm": 5, "allowed_models": ["a"], "priority": "batch"})
        assert r.status_code == 201
        assert r.headers["cache-control"] == "no-store"
        body = r.json()
        key = find_key(body["key"])
        assert key is not None
        assert (key.pk, key.organization.name, key.rpm, key.allowed_models) == (body["id"], "alpha", 5, ["a"])
        assert (body["scopes"], body["priority"], body["policy"]) == (["inference", "usage"], "batch", None)
        assert body["key"] not in ask("GET", f"{KEYS}/{key.pk}").content.decode()

    def test_it_gives_what_the_organisation_has(self, ask: Ask) -> None:
        Organization.objects.update(rpm=10, priority="priority", policy="off", allowed_models=["a", "b"])
        wanted = {"name": "new", "rpm": 10, "priority": "priority", "policy": "off", "allowed_models": ["b"]}
        body = ask("POST", KEYS, wanted | {"scopes": ["admin"]}).json()
        assert {name: body[name] for name in wanted} == wanted

    @pytest.mark.parametrize(
        ("given", "complaint"),
        [
            ({"rpm": 11}, "rpm: expected at most 10"),
            ({"budget_tokens_month": 1001}, "budget_tokens_month: expected at most 1000"),
            ({"priority": "priority"}, "priority: expected batch or standard"),
            ({"policy": "off"}, "policy: expected standard or strict-output or strict"),
            ({"scopes": ["admin", "usage"]}, "scopes: expected only inference, admin"),
            ({"scopes": ["inference"], "allowed_models": ["a", "c"]}, "allowed_models: expected only a, b"),
            ({"expires_at": "2031-01-01T00:00:00Z"}, "expires_at: expected 2030-01-01T00:00:00Z at the latest"),
        ],
    )
    def test_it_never_gives_more(self, ask: Ask, given: dict[str, Any], complaint: str) -> None:
        Organization.objects.update(
            rpm=10,
            budget_tokens_month=1000,
            policy="standard",
            scopes=["inference", "admin"],
            allowed_models=["a", "b"],
            expires_at=datetime(2030, 1, 1, tzinfo=UTC),
        )
        assert complaint in complaint_of(ask("POST", KEYS, {"name": "new", "scopes": ["inference"]} | given))
        assert ApiKey.objects.count() == 2

    def test_policies_are_measured_by_their_strictness(self, ask: Ask) -> None:
        for name, strictness in (("lax", 19), ("firm", 21)):
            SafetyPolicy.objects.create(name=name, strictness=strictness)
        Organization.objects.update(policy="strict-output")
        r = ask("POST", KEYS, {"name": "new", "policy": "lax"})
        assert complaint_of(r).startswith("policy: expected strict-output or firm or strict: the organisation has")
        assert ask("POST", KEYS, {"name": "new", "policy": "firm"}).json()["policy"] == "firm"

    def test_without_saying_it_gives_what_there_is_of_the_usual(self, ask: Ask) -> None:
        Organization.objects.update(scopes=["inference", "admin"])
        assert ask("POST", KEYS, {"name": "new"}).json()["scopes"] == ["inference"]

    def test_no_key_outlives_the_one_that_makes_it(self, ask: Ask, admin: Tenant) -> None:
        end = (timezone.now() + timedelta(days=7)).replace(microsecond=0)
        ApiKey.objects.filter(pk=admin.key.pk).update(expires_at=end)
        assert ApiKey.objects.get(pk=ask("POST", KEYS, {"name": "new"}).json()["id"]).expires_at == end
        for later in (None, (end + timedelta(seconds=1)).isoformat()):
            wanted = {"name": "new", "expires_at": later}
            assert "when the key that you call with expires" in complaint_of(ask("POST", KEYS, wanted))

    @pytest.mark.parametrize(
        ("body", "complaint"),
        [
            ({}, "name: "),
            ({"name": ""}, "name: expected text of 1 to 100 characters on one line."),
            ({"name": "x" * 101}, "name: expected text"),
            ({"name": "two\nlines"}, "name: expected text"),
            ({"name": 5}, "name: expected text"),
            ({"name": None}, "name: expected text"),
            ({"name": "x", "rpm": "5"}, "rpm: expected a whole number from 1 to 1000000000000 or null."),
            ({"name": "x", "rpm": 0}, "rpm: expected"),
            ({"name": "x", "rpm": 1.5}, "rpm: expected"),
            ({"name": "x", "rpm": True}, "rpm: expected"),
            ({"name": "x", "rpm": 10**30}, "rpm: expected"),
            ({"name": "x", "scopes": []}, "scopes: expected some of inference, usage, admin."),
            ({"name": "x", "scopes": "inference"}, "scopes: expected"),
            ({"name": "x", "scopes": [["inference"]]}, "scopes: expected"),
            ({"name": "x", "scopes": None}, "scopes: expected"),
            ({"name": "x", "allowed_models": []}, "allowed_models: expected 1 to 100 names"),
            ({"name": "x", "allowed_models": ["a\n"]}, "allowed_models: expected"),
            ({"name": "x", "shadow": "yes"}, "shadow: expected true or false."),
            ({"name": "x", "priority": "urgent"}, "priority: expected batch, standard, priority or null."),
            ({"name": "x", "policy": 1}, "policy: expected"),
            ({"name": "x", "policy": ""}, "policy: expected"),
            ({"name": "x", "policy": "none"}, "policy: expected off, standard, strict-output, strict or null."),
            ({"name": "x", "expires_at": "soon"}, "expires_at: expected a time to come"),
            ({"name": "x", "expires_at": 5}, "expires_at: expected"),
            ({"name": "x", "expires_at": "2001-01-01"}, "expires_at: expected"),
            ({"name": "x", "expires_at": "9999-12-31T23:59:59-23:00"}, "expires_at: expected"),
            ({"name": "x", "digest": "x"}, "digest: no such field; expected name, "),
            ({"name": "x", "organization": "x"}, "organization: no such field"),
            ({"name": "x", "prefix": "x"}, "prefix: this cannot be set."),
            ([], "The body: expected a JSON object."),
            (b"{", "The body is not valid JSON"),
            (b'{"name": "\\ud800"}', "The body is not valid JSON"),
            (b"[" * 100_000, "The body is nested too deeply"),
            (b'{"name": "x", "rpm": NaN}', "The body is not valid JSON"),
        ],
    )
    def test_it_rejects_what_will_not_do(self, ask: Ask, body: Any, complaint: str) -> None:
        assert complaint_of(ask("POST", KEYS, body)).startswith(complaint)
        assert ApiKey.objects.count() == 2

    def test_it_rejects_another_content_type(self, client: Client, admin: Tenant) -> None:
        r = client.post(KEYS, {"name": "x"}, headers=admin.headers)
        assert r.status_code == 415

    def test_there_is_an_end_to_it(self, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("api.keys_view.MOST_KEYS", 2)
        assert "Revoke some" in complaint_of(ask("POST", KEYS, {"name": "new"}), 409)


class TestList:
    def test_it_has_the_organisations_keys_and_no_others(
        self, ask: Ask, alice: Tenant, bob: Tenant, charlie: Tenant
    ) -> None:
        names = [key["name"] for key in ask("GET", KEYS).json()["results"]]
        assert sorted(names) == ["admin", "alice", "bob"]
        assert ask("GET", f"{KEYS}/{charlie.key.pk}").status_code == 404

    def test_pages_follow_each_other_and_cost_the_same(self, ask: Ask) -> None:
        for number in range(6):
            create_key(name=f"key {number}", organization="alpha")
        seen: list[str] = []
        costs = set()
        url = f"{KEYS}?limit=3"
        while url:
            with CaptureQueriesContext(connection) as queries:
                page = ask("GET", url).json()
            costs.add(len(queries))
            seen += [key["id"] for key in page["results"]]
            url = page["next"]
        assert seen == list(ApiKey.objects.order_by("-created_at").values_list("id", flat=True))
        assert max(costs) <= 2, "one for the page, one for a key not yet remembered"

    @pytest.mark.parametrize("query", ["limit=0", "limit=x", "cursor=x", "offset=5"])
    def test_it_rejects_a_wrong_parameter(self, ask: Ask, query: str) -> None:
        assert complaint_of(ask("GET", f"{KEYS}?{query}")).startswith(query.partition("=")[0])

    def test_nothing_secret_is_told(self, ask: Ask, alice: Tenant) -> None:
        rotate(alice.key, overlap=timedelta(hours=1))
        told = ask("GET", KEYS).content.decode()
        key = ApiKey.objects.get(pk=alice.key.pk)
        assert key.prefix in told
        assert key.digest not in told
        assert key.old_digest not in told


class TestChange:
    def test_it_works(self, ask: Ask, alice: Tenant) -> None:
        given = {"name": "phone", "rpm": 7, "expires_at": "2100-01-01T00:00:00Z", "policy": "strict", "shadow": True}
        body = ask("PATCH", f"{KEYS}/{alice.key.pk}", given).json()
        assert {name: body[name] for name in given} == given
        again = ask("PATCH", f"{KEYS}/{alice.key.pk}", {"rpm": None, "expires_at": None, "policy": None}).json()
        assert (again["rpm"], again["expires_at"], again["policy"], again["name"]) == (None, None, None, "phone")

    def test_an_empty_body_changes_nothing(self, ask: Ask, alice: Tenant) -> None:
        assert ask("PATCH", f"{KEYS}/{alice.key.pk}", {}).json()["name"] == "alice"

    def test_it_leaves_the_rest_alone(self, ask: Ask, alice: Tenant) -> None:
        ApiKey.objects.filter(pk=alice.key.pk).update(priority="priority", rpm=100)
        Organization.objects.update(rpm=10)
        body = ask("PATCH", f"{KEYS}/{alice.key.pk}", {"name": "phone"}).json()
        assert (body["priority"], body["rpm"]) == ("priority", 100), "operators gave it more; that stays"

    def test_it_bites_at_once(self, client: Client, ask: Ask, alice: Tenant) -> None:
        assert client.get("/v1/requests", headers=alice.headers).status_code == 200
        ask("PATCH", f"{KEYS}/{alice.key.pk}", {"scopes": ["inference"]})
        assert client.get("/v1/requests", headers=alice.headers).status_code == 403

    def test_it_never_gives_more(self, ask: Ask, alice: Tenant) -> None:
        Organization.objects.update(rpm=10)
        assert complaint_of(ask("PATCH", f"{KEYS}/{alice.key.pk}", {"rpm": 11})).startswith("rpm: expected at most 10")

    def test_a_revoked_key_stays_as_it_is(self, ask: Ask, alice: Tenant) -> None:
        ask("DELETE", f"{KEYS}/{alice.key.pk}")
        assert "is revoked" in complaint_of(ask("PATCH", f"{KEYS}/{alice.key.pk}", {"name": "x"}), 409)

    def test_nobody_locks_itself_out(self, ask: Ask, admin: Tenant) -> None:
        own = f"{KEYS}/{admin.key.pk}"
        assert complaint_of(ask("PATCH", own, {"scopes": ["usage"]})).startswith("scopes: this is the key")
        later = (timezone.now() + timedelta(days=1)).isoformat()
        assert complaint_of(ask("PATCH", own, {"expires_at": later})).startswith("expires_at: this is the key")
        assert ask("PATCH", own, {"name": "mine", "scopes": ["admin", "usage"]}).status_code == 200

    def test_anothers_key_is_not_there(self, ask: Ask, charlie: Tenant) -> None:
        for method, path in (("PATCH", ""), ("DELETE", ""), ("POST", "/rotate")):
            assert ask(method, f"{KEYS}/{charlie.key.pk}{path}", {}).status_code == 404
        assert find_key(charlie.plain) == charlie.key

    def test_it_rejects_other_methods(self, ask: Ask, alice: Tenant) -> None:
        assert ask("PUT", f"{KEYS}/{alice.key.pk}", {}).status_code == 405


class TestRevoke:
    def test_it_works_and_may_come_twice(self, client: Client, ask: Ask, alice: Tenant) -> None:
        assert client.get("/v1/requests", headers=alice.headers).status_code == 200
        for _ in range(2):
            assert ask("DELETE", f"{KEYS}/{alice.key.pk}").json()["state"] == "revoked"
        r = client.get("/v1/requests", headers=alice.headers)
        assert complaint_of(r, 401) == "This API key was revoked."

    def test_not_the_key_that_calls(self, ask: Ask, admin: Tenant) -> None:
        assert "another one" in complaint_of(ask("DELETE", f"{KEYS}/{admin.key.pk}"), 409)
        assert find_key(admin.plain) == admin.key


class TestRotate:
    def test_it_works(self, ask: Ask, alice: Tenant) -> None:
        body = ask("POST", f"{KEYS}/{alice.key.pk}/rotate", {"overlap_s": 3600}).json()
        assert find_key(body["key"]) == alice.key
        assert (body["id"], body["old_prefix"]) == (alice.key.pk, alice.key.prefix)
        old, new = find_caller(alice.plain), find_caller(body["key"])
        assert old is not None
        assert new is not None
        assert old.key == new.key, "limits, usage and streams stay those of one key"
        assert old.expires_at is not None
        assert new.expires_at is None

    def test_without_overlap_the_old_text_is_nothing(self, ask: Ask, alice: Tenant) -> None:
        ask("POST", f"{KEYS}/{alice.key.pk}/rotate", {"overlap_s": 0})
        assert find_caller(alice.plain) is None

    def test_a_body_is_not_needed(self, ask: Ask, alice: Tenant) -> None:
        assert ask("POST", f"{KEYS}/{alice.key.pk}/rotate").json()["old_until"] is not None

    @pytest.mark.parametrize("overlap", [-1, 30 * 86400 + 1, "60", None])
    def test_it_rejects_a_wrong_overlap(self, ask: Ask, alice: Tenant, overlap: Any) -> None:
        r = ask("POST", f"{KEYS}/{alice.key.pk}/rotate", {"overlap_s": overlap})
        assert complaint_of(r).startswith("overlap_s: expected a whole number from 0 to 2592000")

    def test_a_lost_answer_locks_nobody_out(self, ask: Ask, admin: Tenant) -> None:
        own = f"{KEYS}/{admin.key.pk}/rotate"
        assert complaint_of(ask("POST", own, {"overlap_s": 59})).startswith("overlap_s: expected at least 60")
        assert ask("POST", own, {"overlap_s": 60}).status_code == 200
        assert "overlaps until" in complaint_of(ask("POST", own, {"overlap_s": 60}), 409), "the caller's text would end"

    def test_a_revoked_key_has_no_new_text(self, ask: Ask, alice: Tenant) -> None:
        ask("DELETE", f"{KEYS}/{alice.key.pk}")
        assert "is revoked" in complaint_of(ask("POST", f"{KEYS}/{alice.key.pk}/rotate", {}), 409)
