"""The admin with the console in it."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

pytestmark = pytest.mark.django_db


def apps_of(client: Client) -> dict[str, list[str]]:
    """Return what the index lists."""
    listed = client.get("/admin/").context["app_list"]
    return {app["name"]: [model["name"] for model in app["models"]] for app in listed}


def test_it_works(admin_client: Client) -> None:
    apps = apps_of(admin_client)
    assert next(iter(apps)) == "Console"
    assert apps["Console"] == ["Streams", "SLOs", "Latency", "Safety", "Workers"]
    assert {"Accounts", "Records", "Safety", "Batches"} <= apps.keys()


def test_it_lists_what_the_user_may_see(client: Client) -> None:
    user = User.objects.create_user("olga", is_staff=True)
    client.force_login(user)
    assert apps_of(client) == {}
    user.user_permissions.set(Permission.objects.filter(codename="view_processes"))
    assert apps_of(client) == {"Console": ["Workers"]}
    assert client.get("/admin/console/").headers["location"] == "/admin/console/workers/"


def test_the_page_of_one_app_has_that_alone(admin_client: Client) -> None:
    assert [app["name"] for app in admin_client.get("/admin/accounts/").context["app_list"]] == ["Accounts"]


def test_the_console_is_for_staff_with_a_permission_of_it(client: Client) -> None:
    assert client.get("/admin/console/").status_code == 302
    client.force_login(User.objects.create_user("olga", is_staff=True))
    assert client.get("/admin/console/").status_code == 403
