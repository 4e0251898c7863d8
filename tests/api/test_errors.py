"""Errors that come from Django or REST framework rather than from us."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from django.core.exceptions import PermissionDenied
from django.db import InterfaceError, OperationalError
from django.http import Http404
from django.test import Client, RequestFactory
from rest_framework import exceptions

from api.errors import permission_denied, render_error
from records.models import RequestRecord
from tests.conftest import Tenant


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (exceptions.ParseError(), 400, "invalid_request_error"),
        (exceptions.ValidationError({"name": ["Too long.", "Too odd."]}), 400, "invalid_request_error"),
        (exceptions.AuthenticationFailed(), 401, "authentication_error"),
        (exceptions.PermissionDenied(), 403, "permission_error"),
        (PermissionDenied(), 403, "permission_error"),
        (Http404(), 404, "not_found_error"),
        (exceptions.MethodNotAllowed("PUT"), 405, "invalid_request_error"),
        (exceptions.NotAcceptable(), 406, "invalid_request_error"),
        (exceptions.UnsupportedMediaType("text/csv"), 415, "invalid_request_error"),
        (exceptions.Throttled(7), 429, "rate_limit_error"),
        (exceptions.APIException(), 500, "api_error"),
    ],
)
def test_each_keeps_its_status(rf: RequestFactory, error: Exception, status: int, kind: str) -> None:
    response = render_error(error, {"request": rf.get("/")})
    assert response is not None
    assert (response.status_code, response.data["error"]["type"]) == (status, kind)
    assert response.headers.get("retry-after") == ("7" if status == 429 else None)


def test_the_message_names_the_field(rf: RequestFactory) -> None:
    response = render_error(exceptions.ValidationError({"name": ["Too long."]}), {"request": rf.get("/")})
    assert response is not None
    assert response.data["error"]["message"] == "name: Too long."


def test_what_is_no_answer_to_a_caller_is_left_to_the_log(rf: RequestFactory) -> None:
    assert render_error(RuntimeError("secret"), {"request": rf.get("/")}) is None


def test_a_wrong_host_is_told_of_in_our_form(client: Client) -> None:
    r = client.get("/v1/requests", headers={"host": "evil.example"})
    assert (r.status_code, r.json()["error"]["type"]) == (400, "invalid_request_error")
    assert "SLUICE_ALLOWED_HOSTS" in r.json()["error"]["message"]
    assert r.headers["request-id"] == r.json()["request_id"]


def test_a_refusal_has_our_form(rf: RequestFactory) -> None:
    r = permission_denied(rf.get("/v1/x"), PermissionDenied())
    assert (r.status_code, r.headers["content-type"]) == (403, "application/json")
    assert permission_denied(rf.get("/admin/"), PermissionDenied()).headers["content-type"].startswith("text/html")


@pytest.mark.parametrize(("path", "status"), [("/admin/", 400), ("/admin/no/such/page", 404)])
def test_people_get_pages(admin_client: Client, path: str, status: int) -> None:
    r = admin_client.get(path, headers={"host": "evil.example"} if status == 400 else {})
    assert (r.status_code, r.headers["content-type"]) == (status, "text/html; charset=utf-8")


@pytest.mark.django_db
def test_a_fault_is_in_the_log_under_its_id(client: Client, alice: Tenant, caplog: pytest.LogCaptureFixture) -> None:
    client.raise_request_exception = False
    with patch.object(RequestRecord.objects, "filter", side_effect=RuntimeError("broken")):
        r = client.get("/v1/requests", headers=alice.headers)
    assert (r.status_code, r.json()["error"]["type"]) == (500, "api_error")
    assert "broken" not in r.json()["error"]["message"]
    (record,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert record.__dict__["tail"] == f" [{r.json()['request_id']}]"


@pytest.mark.django_db
@pytest.mark.parametrize("error", [OperationalError, InterfaceError])
def test_without_the_database_it_is_another_time(client: Client, alice: Tenant, error: type[Exception]) -> None:
    client.raise_request_exception = False
    with patch.object(RequestRecord.objects, "filter", side_effect=error("secret host")):
        r = client.get("/v1/requests", headers=alice.headers)
    assert (r.status_code, r.json()["error"]["type"]) == (503, "api_error")
    assert r.headers["retry-after"] == "5"
    assert "secret" not in r.json()["error"]["message"]


@pytest.mark.django_db
def test_without_the_database_there_are_no_pages(admin_client: Client) -> None:
    admin_client.raise_request_exception = False
    with patch.object(RequestRecord.objects, "get_queryset", side_effect=OperationalError("secret host")):
        r = admin_client.get("/admin/records/requestrecord/")
    assert (r.status_code, r.content) == (503, b"The database does not answer now.")


@pytest.mark.parametrize("openai", [True, False])
def test_a_path_that_nobody_serves(client: Client, openai: bool) -> None:
    r = client.get("/v1/chat/other" if openai else "/v1/other")
    assert r.status_code == 404
    assert r.json()["error"]["type"] == "not_found_error"
    assert r.json()["error"].get("code") == ("unknown_url" if openai else None)
    assert r.headers["x-request-id"].startswith("req_")
