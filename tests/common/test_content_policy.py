"""What a browser may load, on every response of Django's."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client

from common.content_policy import DATA, HEADER, PAGE, policy


@pytest.mark.parametrize("path", ["/admin/", "/admin/accounts/apikey/", "/admin/console/workers/", "/admin/nowhere/"])
def test_it_works(admin_client: Client, path: str) -> None:
    assert admin_client.get(path).headers[HEADER] == policy(PAGE)


@pytest.mark.parametrize("path", ["/v1/requests", "/v1/nowhere", "/static/admin/css/base.css"])
def test_what_is_no_page_may_load_nothing(client: Client, path: str) -> None:
    assert client.get(path).headers[HEADER] == policy(DATA)


def test_a_view_may_allow_less(client: Client) -> None:
    assert "connect-src 'none'; form-action 'none'" in client.get("/docs/").headers[HEADER]
    assert client.get("/demo/").headers[HEADER] == policy(PAGE)


def test_errors_have_it(admin_user: User, client: Client) -> None:
    client.force_login(User.objects.create_user("olga", is_staff=True))
    for path, status in (("/admin/console/workers/", 403), ("/admin/%00", 400), ("/demo/nowhere", 404)):
        r = client.get(path)
        assert r.status_code == status
        assert r.headers[HEADER] == policy(PAGE)
        assert f'<p class="status">{status}</p>' in r.content.decode()


def test_it_allows_nothing_inline_and_no_other_host() -> None:
    allowed = {word for sources in PAGE.values() for word in sources.split()}
    assert allowed == {"'none'", "'self'", "data:"}
