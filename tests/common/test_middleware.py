"""One id per request, on whatever Django answers, and no NULs."""

from __future__ import annotations

import logging

import pytest
from django.http import HttpRequest, HttpResponse
from django.test import Client, RequestFactory

from accounts.keys import create_key
from common.middleware import RequestIdInLog, RequestIds, request_id_of


@pytest.mark.parametrize(
    ("path", "status"),
    [("/static/admin/css/base.css", 200), ("/admin/", 302), ("/v1/requests", 401), ("/nowhere", 404)],
)
def test_it_works(client: Client, path: str, status: int) -> None:
    r = client.get(path)
    assert r.status_code == status
    assert r.headers["request-id"] == r.headers["x-request-id"]
    assert r.headers["request-id"].startswith("req_")


def test_the_view_sees_the_id_of_the_header(rf: RequestFactory) -> None:
    seen: list[str] = []

    def view(request: HttpRequest) -> HttpResponse:
        seen.append(request_id_of(request))
        return HttpResponse()

    responses = [RequestIds(view)(rf.get("/")) for _ in range(2)]
    assert [r.headers["request-id"] for r in responses] == seen
    assert len(set(seen)) == 2


def test_a_caller_cannot_choose_it(rf: RequestFactory) -> None:
    request = rf.get("/", headers={"request-id": "req_mine", "sluice.request-id": "req_mine"})
    assert request_id_of(request) != "req_mine"


@pytest.mark.parametrize(
    ("path", "cookie"), [("/admin/%00", ""), ("/admin/?q=%00", ""), ("/admin/", r'sessionid="abcdefgh\000"')]
)
def test_a_nul_is_refused(client: Client, path: str, cookie: str) -> None:
    r = client.get(path, headers={"cookie": cookie})
    assert r.status_code == 400


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["requests", "organization/keys", "messages/batches"])
def test_nor_does_one_fail_under_v1(client: Client, name: str) -> None:
    _, plain = create_key(name="all", scopes=["inference", "usage", "admin"])
    for path in (f"/v1/{name}/a%00b", f"/v1/{name}?limit=%00", f"/v1/{name}?cursor=%00", f"/v1/{name}?after_id=%00"):
        r = client.get(path, headers={"x-api-key": plain})
        assert r.status_code in (400, 404), path
        assert r.json()["error"]["type"] in ("invalid_request_error", "not_found_error")


def line_of(**extra: object) -> str:
    record = logging.makeLogRecord({"msg": "failed", **extra})
    assert RequestIdInLog().filter(record)
    return logging.Formatter("%(message)s%(tail)s").format(record)


def test_the_log_names_it(rf: RequestFactory) -> None:
    request = rf.get("/")
    request_id = request_id_of(request)
    assert line_of(request=request) == f"failed [{request_id}]"


def test_the_log_does_without(rf: RequestFactory) -> None:
    assert line_of() == line_of(request=object()) == line_of(request=rf.get("/")) == "failed"


def test_a_wrong_host_takes_one_line_of_the_log(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    assert client.get("/admin/", headers={"host": "elsewhere.example"}).status_code == 400
    (record,) = (record for record in caplog.records if record.name == "django.security.DisallowedHost")
    assert "elsewhere.example" in record.getMessage()
    assert record.exc_info is None
