"""Cookies that came to be over https go back over nothing else, whatever the settings say of the site."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponseBase


class SecureCookies:
    """Mark the cookies of responses to https requests as Secure; a proxy in front says so by `X-Forwarded-Proto`."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self._get_response(request)
        if request.is_secure():
            for cookie in response.cookies.values():
                cookie["secure"] = True
        return response
