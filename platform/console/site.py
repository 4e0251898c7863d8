"""The admin as Sluice has it: the console's pages come first, on the index and in the sidebar."""

from __future__ import annotations

from typing import Any

from django.contrib.admin import AdminSite
from django.http import HttpRequest
from django.urls import reverse

from console.pages import TABS


class Site(AdminSite):
    """Django's site, by our name, with the console among its apps."""

    site_title = site_header = "Sluice"
    index_title = "Operations"
    site_url = "/demo/"

    def get_app_list(self, request: HttpRequest, app_label: str | None = None) -> list[Any]:
        apps = super().get_app_list(request, app_label)
        pages = [_entry(tab.label, reverse(tab.url)) for tab in TABS if request.user.has_perm(tab.permission)]
        if app_label is not None or not pages:
            return apps
        console = {"name": "Console", "app_label": "console", "app_url": reverse("console:index"),
                   "has_module_perms": True, "models": pages}  # fmt: skip
        return [console, *apps]


def _entry(label: str, url: str) -> dict[str, Any]:
    """Return a page as Django's templates take a model that can be looked at."""
    return {"name": label, "object_name": label, "admin_url": url, "add_url": None, "view_only": True,
            "perms": {"view": True}}  # fmt: skip
