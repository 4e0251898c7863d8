"""GET /v1/requests."""

from __future__ import annotations

from base64 import b64encode

import pytest
from django.test import Client

from accounts.keys import create_key
from records.models import RequestRecord
from tests.conftest import Tenant
from tests.records.test_admin import make

pytestmark = pytest.mark.django_db


def test_it_works(client: Client, alice: Tenant) -> None:
    make(alice, "msg_1")
    r = client.get("/v1/requests", headers=alice.headers)
    (row,) = r.json()["results"]
    assert (row["id"], row["outcome"], row["output_tokens"], row["tpot_ms"]) == ("msg_1", "end_turn", 5, 20.0)
    assert (row["bytes_sent"], row["resumes"]) == (None, 0)
    assert r.json()["next"] is None


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
    ("path", "name"), [("/v1/requests", "outcome"), ("/v1/requests", "format"), ("/v1/requests/msg_1", "limit")]
)
def test_it_rejects_unknown_parameters_by_name(client: Client, alice: Tenant, path: str, name: str) -> None:
    make(alice, "msg_1")
    r = client.get(path, {name: "1"}, headers=alice.headers)
    assert r.status_code == 400
    assert r.json()["error"]["message"].startswith(f"{name}: no such query parameter")


def test_it_rejects_who_takes_no_json(client: Client, alice: Tenant) -> None:
    r = client.get("/v1/requests", headers=alice.headers | {"accept": "text/csv"})
    assert (r.status_code, r.json()["error"]["type"]) == (406, "invalid_request_error")
