"""The frame of the console's pages: staff with the permission for it, in the admin's look, nothing of other hosts."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponseBase
from django.template.response import TemplateResponse
from django.urls import reverse


@dataclass(frozen=True, slots=True)
class Tab:
    """A page of the console as its navigation shows it; `url` is the name of its pattern."""

    label: str
    url: str
    permission: str


TABS = (
    Tab("Streams", "console:streams", "console.view_streams"),
    Tab("SLOs", "console:slo", "console.view_slo"),
    Tab("Latency", "console:latency", "console.view_slo"),
    Tab("Safety", "console:safety", "records.view_safetytrigger"),
    Tab("Workers", "console:workers", "console.view_processes"),
)

View = Callable[..., HttpResponseBase]


def staff_page(permission: str) -> Callable[[View], View]:
    """Let in staff who have a permission; others log in, or are refused."""

    def around(view: View) -> View:
        @functools.wraps(view)
        def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            if not request.user.has_perm(permission):
                raise PermissionDenied
            return view(request, *args, **kwargs)

        return admin.site.admin_view(guarded)

    return around


def page(request: HttpRequest, template: str, *, title: str, **context: Any) -> TemplateResponse:
    """Return a page in the console's frame (`templates/console/base.html`)."""
    here = request.resolver_match.view_name if request.resolver_match else ""
    tabs = [
        {"label": tab.label, "url": reverse(tab.url), "here": here.startswith(tab.url)}
        for tab in TABS
        if request.user.has_perm(tab.permission)
    ]
    frame = admin.site.each_context(request) | {"title": title, "tabs": tabs, "is_nav_sidebar_enabled": False}
    response = TemplateResponse(request, template, frame | context)
    response.headers["cache-control"] = "no-store"
    return response
