"""GET /v1/requests."""

from __future__ import annotations

from base64 import b64encode
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from accounts.keys import create_key, rotate
from records.models import RequestRecord
from tests.conftest import Tenant
from tests.records.test_admin import make

pytestmark = pytest.mark.django_db


def test_it_works(client: Client, alice: Tenant) -> None:
    make(alice, "msg_1")
    r = client.get("/v1/requests", headers=alice.headers)
    (row,) = r.json()["results"]
    assert (row["id"], row["outcome"], row["output_tokens"], row["tpot_ms"]) == ("msg_1", "end_turn", 5, 20.0)
    assert (row["bytes_sent"], row["resumes"], row["key"]) == (None, 0, alice.key.pk)
    assert r.json()["next"] is None


def test_behind_a_proxy_that_says_so_the_next_page_is_at_https(client: Client, alice: Tenant) -> None:
    for name in ("msg_1", "msg_2"):
        make(alice, name)
    headers = alice.headers | {"host": "testserver", "x-forwarded-proto": "https"}
    assert client.get("/v1/requests?limit=1", headers=headers).json()["next"].startswith("https://testserver/")


def test_a_bearer_token_is_a_key_too(client: Client, alice: Tenant) -> None:
    assert client.get("/v1/requests", headers={"authorization": f"Bearer {alice.plain}"}).status_code == 200


def test_a_teammate_sees_them_and_an_outsider_does_not(
    client: Client, alice: Tenant, bob: Tenant, charlie: Tenant
) -> None:
    make(alice, "msg_1")
    assert client.get("/v1/requests/msg_1", headers=bob.headers).status_code == 200
    assert client.get("/v1/requests", headers=charlie.headers).json()["results"] == []
    assert client.get("/v1/requests/msg_1", headers=charlie.headers).status_code == 404


def test_an_unsettled_record_is_not_shown(client: Client, alice: Tenant) -> None:
    make(alice, "msg_1")
    RequestRecord.objects.update(outcome="")
    assert client.get("/v1/requests", headers=alice.headers).json()["results"] == []


def test_pages_follow_each_other(client: Client, alice: Tenant) -> None:
    for i in range(5):
        make(alice, f"msg_{i}")
    seen: list[str] = []
    url = "/v1/requests?limit=2"
    while url:
        page = client.get(url, headers=alice.headers).json()
        seen += [row["id"] for row in page["results"]]
        url = page["next"]
    assert seen == [f"msg_{i}" for i in (4, 3, 2, 1, 0)]


@pytest.mark.parametrize("headers", [{}, {"x-api-key": "nonsense"}, {"authorization": "Bearer "}])
def test_it_rejects_a_wrong_key(client: Client, headers: dict[str, str]) -> None:
    r = client.get("/v1/requests", headers=headers)
    assert (r.status_code, r.json()["error"]["type"]) == (401, "authentication_error")
    assert r.headers["request-id"] == r.json()["request_id"]


def test_it_rejects_other_methods(client: Client, alice: Tenant) -> None:
    r = client.post("/v1/requests", headers=alice.headers)
    assert (r.status_code, r.json()["error"]["type"]) == (405, "invalid_request_error")


def test_an_unknown_path_is_an_error_in_our_form(client: Client) -> None:
    r = client.get("/v1/no/such/path")
    assert (r.status_code, r.json()["error"]["type"]) == (404, "not_found_error")


def test_it_rejects_a_key_without_the_scope(client: Client, alice: Tenant) -> None:
    _, plain = create_key(name="narrow", organization="alpha", scopes=["inference"])
    for path in ("/v1/requests", "/v1/requests/msg_1"):
        r = client.get(path, headers={"x-api-key": plain})
        assert (r.status_code, r.json()["error"]["type"]) == (403, "permission_error")
        assert "usage" in r.json()["error"]["message"]


@pytest.mark.parametrize("limit", ["abc", "", "0", "-1", "1001", "100000", "1.5", "9" * 5000])
def test_it_rejects_a_limit_out_of_range(client: Client, alice: Tenant, limit: str) -> None:
    r = client.get("/v1/requests", {"limit": limit}, headers=alice.headers)
    assert (r.status_code, r.json()["error"]["message"]) == (400, "limit: expected a whole number from 1 to 1000.")


@pytest.mark.parametrize("cursor", ["!", "nonsense", b64encode(b"p=nonsense").decode(), b64encode(b"o=-1").decode()])
def test_it_rejects_a_cursor_that_is_none(client: Client, alice: Tenant, cursor: str) -> None:
    r = client.get("/v1/requests", {"cursor": cursor}, headers=alice.headers)
    assert (r.status_code, r.json()["error"]["message"][:7]) == (400, "cursor:")


@pytest.mark.parametrize(
    ("path", "name"), [("/v1/requests", "organization"), ("/v1/requests", "format"), ("/v1/requests/msg_1", "limit")]
)
def test_it_rejects_unknown_parameters_by_name(client: Client, alice: Tenant, path: str, name: str) -> None:
    make(alice, "msg_1")
    r = client.get(path, {name: "1"}, headers=alice.headers)
    assert r.status_code == 400
    assert r.json()["error"]["message"].startswith(f"{name}: no such query parameter")


@pytest.fixture
def four(alice: Tenant, bob: Tenant) -> None:
    """Four records, a day between them."""
    for number, (tenant, outcome) in enumerate([(alice, "end_turn"), (bob, "oom"), (bob, "error"), (alice, "safety")]):
        made = make(tenant, f"msg_{number}")
        made.created_at = datetime(2026, 1, 1 + number, 12, tzinfo=UTC)
        made.outcome, made.model = outcome, "large" if number == 2 else "small"
        made.save()


def found(client: Client, tenant: Tenant, **query: str) -> str:
    """The numbers of the records that a query finds."""
    r = client.get("/v1/requests", query, headers=tenant.headers)
    assert r.status_code == 200, r.content
    return "".join(row["id"][-1] for row in r.json()["results"])


@pytest.mark.usefixtures("four")
@pytest.mark.parametrize(
    ("query", "numbers"),
    [
        ({}, "3210"),
        ({"model": "small"}, "310"),
        ({"model": "none"}, ""),
        ({"outcome": "oom"}, "1"),
        ({"outcome": "oom,safety"}, "31"),
        ({"from": "2026-01-02"}, "321"),
        ({"to": "2026-01-02"}, "10"),
        ({"from": "2026-01-02", "to": "2026-01-02"}, "1"),
        ({"from": "2026-01-02T12:00:00Z", "to": "2026-01-03T14:00:00+02:00"}, "21"),
        ({"from": "2026-01-02T12:00:00.000001Z"}, "32"),
        ({"to": "9999-12-31", "from": "0001-01-01"}, "3210"),
        ({"model": "small", "outcome": "end_turn,oom", "from": "2026-01-02"}, "1"),
    ],
)
def test_filters_choose(client: Client, alice: Tenant, query: dict[str, str], numbers: str) -> None:
    assert found(client, alice, **query) == numbers


@pytest.mark.usefixtures("four")
def test_a_key_is_told_by_its_id_or_either_prefix(client: Client, alice: Tenant, bob: Tenant) -> None:
    assert found(client, alice, key=bob.key.pk) == "21"
    assert found(client, alice, key=bob.key.prefix) == "21"
    rotate(bob.key, overlap=timedelta(hours=1))
    assert found(client, alice, key=str(bob.key.old_prefix)) == "21"


@pytest.mark.usefixtures("four")
def test_filtered_pages_follow_each_other(client: Client, alice: Tenant) -> None:
    page = client.get("/v1/requests", {"outcome": "oom,error", "limit": "1"}, headers=alice.headers).json()
    assert [row["id"] for row in page["results"]] == ["msg_2"]
    page = client.get(page["next"], headers=alice.headers).json()
    assert [row["id"] for row in page["results"]] == ["msg_1"]
    assert page["next"] is None


@pytest.mark.usefixtures("four")
def test_the_number_of_queries_is_constant(
    client: Client, alice: Tenant, bob: Tenant, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    found(client, alice)  # and the key is known
    with django_assert_num_queries(2):
        found(client, alice, key=bob.key.pk, model="small", outcome="oom")


@pytest.mark.parametrize(
    ("query", "complaint"),
    [
        ({"model": ""}, "model: expected the name of a model."),
        ({"model": "a\n"}, "model: expected"),
        ({"key": "key_none"}, "key: expected the id or the visible prefix of a key of this organisation."),
        ({"key": "\n"}, "key: expected"),
        ({"outcome": ""}, "outcome: expected some of end_turn, "),
        ({"outcome": "oom,oom"}, "outcome: expected"),
        ({"outcome": "oom,none"}, "outcome: expected"),
        ({"from": "yesterday"}, "from: expected a date such as 2030-01-31, or a time such as 2030-01-31T12:00:00Z."),
        ({"from": "20260101"}, "from: expected"),
        ({"from": "2026-02-30"}, "from: expected"),
        ({"from": "2026-W01-1"}, "from: expected"),
        ({"to": "2026-01-01T12:00:00"}, "to: expected"),
        ({"to": "0001-01-01T00:00:00+23:00"}, "to: expected"),
        ({"from": "2026-01-02", "to": "2026-01-01"}, "to: expected a date or time that is not before `from`."),
        ({"limit": ["1", "2"]}, "limit: expected once in the query."),
    ],
)
def test_it_rejects_what_will_not_do(client: Client, alice: Tenant, query: dict[str, Any], complaint: str) -> None:
    r = client.get("/v1/requests", query, headers=alice.headers)
    assert r.status_code == 400
    assert r.json()["error"]["message"].startswith(complaint)


def test_it_rejects_anothers_key(client: Client, alice: Tenant, charlie: Tenant) -> None:
    r = client.get("/v1/requests", {"key": charlie.key.pk}, headers=alice.headers)
    assert (r.status_code, r.json()["error"]["message"][:4]) == (400, "key:")


def test_an_id_that_can_be_none_is_not_there(client: Client, alice: Tenant) -> None:
    assert client.get("/v1/requests/a%20b", headers=alice.headers).status_code == 404


@pytest.mark.parametrize("method", ["PUT", "OPTIONS", "TRACE"])
def test_another_method_is_told_which_there_are(client: Client, alice: Tenant, method: str) -> None:
    r = client.generic(method, "/v1/requests?limit=1", headers=alice.headers)
    assert (r.status_code, r.headers["allow"]) == (405, "GET, HEAD")


def test_it_rejects_who_takes_no_json(client: Client, alice: Tenant) -> None:
    r = client.get("/v1/requests", headers=alice.headers | {"accept": "text/csv"})
    assert (r.status_code, r.json()["error"]["type"]) == (406, "invalid_request_error")
