"""The console's own address: it leads to the first of its pages that the user may see."""

from __future__ import annotations

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from console.pages import TABS


def _index(request: HttpRequest) -> HttpResponse:
    for tab in TABS:
        if request.user.has_perm(tab.permission):
            return redirect(tab.url)
    raise PermissionDenied


show_index = admin.site.admin_view(_index)
