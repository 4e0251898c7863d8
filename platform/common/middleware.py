"""Around all of Django: one id per request, in the response's header, an error's body and the log; and no NULs."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Protocol

from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponseBase

from common.ids import new_id

_KEY = "sluice.request_id"  # no header can be called so, since theirs begin with HTTP_


class HasMeta(Protocol):
    """A request of Django's or of REST framework's."""

    @property
    def META(self) -> dict[str, Any]: ...


def request_id_of(request: HasMeta) -> str:
    """Return the request's id, giving it one where the middleware did not run."""
    request_id: str = request.META.setdefault(_KEY, new_id("req"))
    return request_id


class RequestIds:
    """Set `request-id` on every response, and OpenAI's name for it. Stands outside all other middleware."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        request_id = request_id_of(request)
        response = self._get_response(request)
        response.headers["request-id"] = response.headers["x-request-id"] = request_id
        return response


class NoNulls:
    """Refuse NUL in a path, a query or a cookie: it is in no text of PostgreSQL, which fails when asked for one.

    /v1 has no cookies, and tells what is wrong with a path or a query itself.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        given = {
            "path": "\0" in request.path,
            "query": "%00" in request.META.get("QUERY_STRING", ""),
            "cookies": any("\0" in value for value in request.COOKIES.values()),
        }
        for where, found in given.items():
            if found and not request.path.startswith("/v1/"):
                raise BadRequest(f"{where}: expected no NUL characters.")
        return self._get_response(request)


class WithoutTraceback(logging.Filter):
    """Keep a record to its one line."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.exc_info = record.exc_text = None
        return True


class RequestIdInLog(logging.Filter):
    """Give each record a `tail`: the id of the request it is about, or nothing."""

    def filter(self, record: logging.LogRecord) -> bool:
        meta = getattr(getattr(record, "request", None), "META", {})
        record.tail = f" [{meta[_KEY]}]" if _KEY in meta else ""
        return True
