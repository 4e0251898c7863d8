"""Links to rows and lists in the admin, for whoever may see those; to others the text stands alone."""

from __future__ import annotations

from copy import copy
from typing import Any, Self, TypeVar
from urllib.parse import urlencode

from django.contrib import admin
from django.contrib.admin.utils import quote
from django.db.models import Model
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import conditional_escape, format_html

M = TypeVar("M", bound=Model)


def page_of(request: HttpRequest, row: Model | None, text: Any) -> str:
    """Link a text to the page of a row, if there is such a row."""
    if row is None or not admin.site.get_model_admin(type(row)).has_view_permission(request, row):
        return conditional_escape(text)
    return format_html('<a href="{}">{}</a>', _url(type(row), "change", quote(str(row.pk))), text)


def list_of(request: HttpRequest, rows: type[Model], text: Any, /, **filters: Any) -> str:
    """Link a text to the list of some rows."""
    if not has_list(request, rows):
        return conditional_escape(text)
    return format_html('<a href="{}?{}">{}</a>', _url(rows, "changelist"), urlencode(filters), text)


def has_list(request: HttpRequest, rows: type[Model]) -> bool:
    """Say whether there is a list of some rows for a user: for operators and, where they have roles, for members."""
    return admin.site.get_model_admin(rows).has_view_permission(request)


def _url(rows: type[Model], page: str, *arguments: str) -> str:
    return reverse(f"admin:{rows._meta.app_label}_{rows._meta.model_name}_{page}", args=arguments)


class LinkingAdmin(admin.ModelAdmin[M]):
    """An admin whose columns may link: Django tells them of a row, but not of who looks at it."""

    seen_in: HttpRequest

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        return super(LinkingAdmin, self._seen_in(request)).changelist_view(request, extra_context)

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        return super(LinkingAdmin, self._seen_in(request)).changeform_view(request, *args, **kwargs)

    def _seen_in(self, request: HttpRequest) -> Self:
        """Return a copy for one request: the original serves all of them."""
        of_request = copy(self)
        of_request.seen_in = request
        return of_request
