"""GET /v1/usage."""

from __future__ import annotations

import base64
import json
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from accounts.keys import create_key
from records.models import DailyUsage
from tests.conftest import Tenant

pytestmark = pytest.mark.django_db

TODAY = datetime.now(UTC).date()


def add(tenant: Tenant, day: date, model: str = "m", outcome: str = "end_turn", requests: int = 1) -> None:
    DailyUsage.objects.create(
        day=day, organization=tenant.key.organization, key=tenant.key, model=model, outcome=outcome, requests=requests,
        input_tokens=10 * requests, cached_tokens=4 * requests, output_tokens=7 * requests,
    )  # fmt: skip


def ask(client: Client, tenant: Tenant, **query: Any) -> Any:
    return client.get("/v1/usage", query, headers=tenant.headers)


def rows(client: Client, tenant: Tenant, **query: Any) -> list[dict[str, Any]]:
    r = ask(client, tenant, **query)
    assert r.status_code == 200, r.content
    found: list[dict[str, Any]] = r.json()["results"]
    return found


def test_it_works(client: Client, alice: Tenant) -> None:
    add(alice, TODAY)
    add(alice, TODAY, outcome="cancelled", requests=2)
    sums = {"requests": 3, "input_tokens": 30, "cached_tokens": 12, "output_tokens": 21}
    row = {"day": str(TODAY), "model": "m", "key": alice.key.pk} | sums
    assert ask(client, alice).json() == {"results": [row], "next": None}


def test_only_the_organisations_own(client: Client, alice: Tenant, bob: Tenant, charlie: Tenant) -> None:
    add(alice, TODAY)
    assert len(rows(client, bob)) == 1
    assert rows(client, charlie) == []


@pytest.mark.parametrize(
    ("group_by", "groups"),
    [
        ("day", [("0", 7), ("1", 8)]),
        ("model", [("a", 5), ("b", 10)]),
        ("model,day", [("0a", 1), ("0b", 6), ("1a", 4), ("1b", 4)]),
    ],
)
def test_it_adds_up_by_groups(
    client: Client, alice: Tenant, bob: Tenant, group_by: str, groups: list[tuple[str, int]]
) -> None:
    for tenant, days_ago, model, requests in [
        (alice, 0, "a", 1), (alice, 0, "b", 2), (bob, 0, "b", 4), (alice, 1, "a", 4), (bob, 1, "b", 4),
    ]:  # fmt: skip
        add(tenant, TODAY - timedelta(days=days_ago), model, requests=requests)
    found = rows(client, alice, group_by=group_by)
    for row in found:
        assert {"day", "model", "key"} & row.keys() == set(group_by.split(","))
    days = {str(TODAY): "0", str(TODAY - timedelta(days=1)): "1", "": ""}
    assert [(days[row.get("day", "")] + row.get("model", ""), row["requests"]) for row in found] == groups


def test_it_shows_thirty_days_to_today(client: Client, alice: Tenant) -> None:
    for days_ago in (0, 29, 30):
        add(alice, TODAY - timedelta(days=days_ago))
    assert [row["day"] for row in rows(client, alice)] == [str(TODAY), str(TODAY - timedelta(days=29))]


def test_both_ends_are_included(client: Client, alice: Tenant) -> None:
    for day in range(1, 6):
        add(alice, date(2026, 1, day))
    found = rows(client, alice, **{"from": "2026-01-02", "to": "2026-01-04"})
    assert [row["day"] for row in found] == ["2026-01-04", "2026-01-03", "2026-01-02"]
    assert len(rows(client, alice, to="2026-01-03")) == 3
    assert rows(client, alice, to="0001-01-01") == []


def test_filters_choose(client: Client, alice: Tenant, bob: Tenant) -> None:
    add(alice, TODAY, "a")
    add(bob, TODAY, "a", requests=2)
    add(bob, TODAY, "b", requests=4)
    assert [row["requests"] for row in rows(client, alice, model="a", group_by="day")] == [3]
    assert [row["requests"] for row in rows(client, alice, key=bob.key.prefix, group_by="day")] == [6]
    assert [row["requests"] for row in rows(client, alice, key=bob.key.pk, model="b")] == [4]


def test_what_was_taken_back_is_not_shown(client: Client, alice: Tenant) -> None:
    add(alice, TODAY, requests=0)
    assert rows(client, alice) == []


@pytest.mark.parametrize("group_by", ["day,model,key", "model,day", "key", "day"])
def test_pages_follow_each_other(client: Client, alice: Tenant, bob: Tenant, group_by: str) -> None:
    for tenant in (alice, bob):
        for days_ago in range(3):
            for model in ("a", "b/ü", "c"):
                add(tenant, TODAY - timedelta(days=days_ago), model)
    whole = rows(client, alice, group_by=group_by)
    paged: list[dict[str, Any]] = []
    url: str | None = f"/v1/usage?limit=2&group_by={group_by}"
    while url:
        page = client.get(url, headers=alice.headers).json()
        assert len(page["results"]) <= 2
        paged += page["results"]
        url = page["next"]
    assert paged == whole


def test_the_next_page_is_of_the_same_days(client: Client, alice: Tenant) -> None:
    add(alice, TODAY, "a")
    add(alice, TODAY, "b")
    link = ask(client, alice, limit=1).json()["next"]
    assert f"from={TODAY - timedelta(days=29)}" in link
    assert f"to={TODAY}" in link


def test_it_takes_one_query(client: Client, alice: Tenant, django_assert_num_queries: DjangoAssertNumQueries) -> None:
    for model in "abcdef":
        add(alice, TODAY, model)
    rows(client, alice)  # and the key is known
    with django_assert_num_queries(1):
        rows(client, alice)
    with django_assert_num_queries(2):
        rows(client, alice, key=alice.key.pk)


def cursor(*values: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(values).encode()).decode()


@pytest.mark.parametrize(
    ("query", "complaint"),
    [
        ({"from": "soon"}, "from: expected a date such as 2030-01-31."),
        ({"from": "2026-01-01T00:00:00Z"}, "from: expected a date"),
        ({"to": "2026-13-01"}, "to: expected a date"),
        ({"from": "2026-01-02", "to": "2026-01-01"}, "from: expected a date that is not after 2026-01-01."),
        ({"from": "2025-01-01", "to": "2026-01-02"}, "from: expected at most 366 days up to 2026-01-02."),
        ({"from": "9999-12-31"}, "from: expected a date that is not after"),
        ({"group_by": ""}, "group_by: expected some of day, model, key, with commas between them."),
        ({"group_by": "day,day"}, "group_by: expected"),
        ({"group_by": "outcome"}, "group_by: expected"),
        ({"group_by": ["day", "key"]}, "group_by: expected once in the query."),
        ({"model": ""}, "model: expected"),
        ({"key": "none"}, "key: expected"),
        ({"limit": "0"}, "limit: expected a whole number from 1 to 1000."),
        ({"limit": "1001"}, "limit: expected"),
        ({"cursor": "!"}, "cursor: expected one from the `next` of a page, with the same `group_by`."),
        ({"cursor": "ü"}, "cursor: expected"),
        ({"cursor": cursor("2026-01-01")}, "cursor: expected"),
        ({"cursor": cursor("today", "m", "k")}, "cursor: expected a date"),
        ({"cursor": cursor("2026-01-01", "m\0", "k")}, "cursor: expected"),
        ({"cursor": cursor("2026-01-01", 1, "k")}, "cursor: expected"),
        ({"organization": "x"}, "organization: no such query parameter; expected cursor or from or group_by"),
    ],
)
def test_it_rejects_what_will_not_do(client: Client, alice: Tenant, query: dict[str, Any], complaint: str) -> None:
    r = ask(client, alice, **query)
    assert r.status_code == 400, r.content
    assert r.json()["error"]["message"].startswith(complaint)


def test_it_needs_the_scope(client: Client, alice: Tenant) -> None:
    narrow = Tenant(*create_key(name="narrow", organization="alpha", scopes=["inference"]))
    r = ask(client, narrow)
    assert (r.status_code, r.json()["error"]["message"]) == (403, "This key lacks the scope usage.")
