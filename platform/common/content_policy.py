"""What a browser may load for our pages: files of their own host, and nothing that stands in the page itself."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponseBase

HEADER = "content-security-policy"

PAGE = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self' data:",
    "font-src": "'self'",
    "connect-src": "'self'",
    "form-action": "'self'",
    "base-uri": "'none'",
    "frame-ancestors": "'none'",
}
DATA = {"default-src": "'none'", "frame-ancestors": "'none'"}


def policy(sources: dict[str, str]) -> str:
    """Return the header's value."""
    return "; ".join(f"{name} {value}" for name, value in sources.items())


class ContentSecurityPolicy:
    """Give every response of Django's a policy: that of a page, or for JSON and the like one that allows nothing.

    A view that allows less has set its own already (`common.pages`). It stands outside, so that errors have it too.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self._get_response(request)
        is_page = response.headers.get("content-type", "").startswith("text/html")
        response.headers.setdefault(HEADER, policy(PAGE if is_page else DATA))
        return response
