"""Cookies of a site that is https."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client

pytestmark = pytest.mark.django_db

LOGIN = "/admin/login/"


def log_in(client: Client, **headers: str) -> None:
    User.objects.create_superuser("root", password="a-long-pass-phrase")
    client.get(LOGIN, headers=headers)
    data = {"username": "root", "password": "a-long-pass-phrase", "next": "/admin/"}
    assert client.post(LOGIN, data, headers=headers).status_code == 302


def test_it_works(client: Client) -> None:
    log_in(client, x_forwarded_proto="https")
    assert client.cookies["sessionid"]["secure"]
    assert client.cookies["csrftoken"]["secure"]


def test_without_https_they_work_as_well(client: Client) -> None:
    log_in(client)
    assert not client.cookies["sessionid"]["secure"]
    assert client.get("/admin/").status_code == 200


def test_scripts_and_other_sites_do_without_them(client: Client) -> None:
    log_in(client)
    for name in ("sessionid", "csrftoken"):
        assert client.cookies[name]["httponly"]
        assert client.cookies[name]["samesite"] == "Lax"


def test_the_form_of_another_site_is_refused() -> None:
    strict = Client(enforce_csrf_checks=True)
    token = strict.get(LOGIN).context["csrf_token"]
    headers = {"origin": "https://evil.example", "host": "localhost"}
    r = strict.post(LOGIN, {"username": "root", "csrfmiddlewaretoken": str(token)}, headers=headers)
    assert r.status_code == 403
    assert "This form has expired" in r.content.decode()


def test_a_host_that_is_not_ours_is_refused(client: Client) -> None:
    assert client.get(LOGIN, headers={"host": "evil.example"}).status_code == 400
