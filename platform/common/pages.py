"""Pages outside the admin: they load nothing of another host, and nothing inline."""

from __future__ import annotations

import functools
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

View = Callable[[HttpRequest], HttpResponse]


def self_contained(*, connect: bool = False) -> Callable[[View], View]:
    """Let the page use files of its own host alone; with `connect`, its scripts may talk to that host, too."""
    own = {"script-src": "'self'", "style-src": "'self'", "img-src": "'self' data:"}
    talk = {"connect-src": "'self'", "form-action": "'self'"} if connect else {"form-action": "'none'"}
    sources = {"default-src": "'none'"} | own | talk | {"base-uri": "'none'", "frame-ancestors": "'none'"}
    policy = "; ".join(f"{name} {value}" for name, value in sources.items())

    def around(view: View) -> View:
        @functools.wraps(view)
        def guarded(request: HttpRequest) -> HttpResponse:
            response = view(request)
            response.headers["content-security-policy"] = policy
            response.headers["referrer-policy"] = "no-referrer"
            return response

        return guarded

    return around
