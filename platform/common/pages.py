"""Pages outside the admin: they load nothing of another host, and nothing inline."""

from __future__ import annotations

import functools
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from common.content_policy import HEADER, PAGE, policy

View = Callable[[HttpRequest], HttpResponse]


def self_contained(*, connect: bool = False) -> Callable[[View], View]:
    """Let the page use files of its own host alone; with `connect`, its scripts may talk to that host, too."""
    allowed = policy(PAGE if connect else PAGE | {"connect-src": "'none'", "form-action": "'none'"})

    def around(view: View) -> View:
        @functools.wraps(view)
        def guarded(request: HttpRequest) -> HttpResponse:
            response = view(request)
            response.headers[HEADER] = allowed
            response.headers["referrer-policy"] = "no-referrer"
            return response

        return guarded

    return around
