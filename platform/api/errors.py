"""Every error of Django's side: in the one form that the streams use too, but for the pages that people look at."""

from __future__ import annotations

import sys
from typing import Any

from django.core.exceptions import BadRequest, DisallowedHost
from django.core.exceptions import PermissionDenied as PagePermissionDenied
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.views import defaults
from rest_framework.exceptions import APIException
from rest_framework.request import Request
from rest_framework.response import Response

from common.error_forms import anthropic_form, error_body
from common.errors import (
    ApiError,
    AuthenticationFailed,
    InvalidRequest,
    MethodNotAllowed,
    NotAcceptable,
    NotFound,
    PermissionDenied,
    RateLimited,
    RequestTooLarge,
    Unavailable,
    UnsupportedMediaType,
)
from common.ids import new_id
from common.middleware import request_id_of

PAGES = ("/admin/", "/demo/", "/docs/")
_BY_STATUS: dict[int, type[ApiError]] = {
    kind.status: kind
    for kind in (
        *(InvalidRequest, AuthenticationFailed, PermissionDenied, NotFound, MethodNotAllowed, NotAcceptable),
        *(RequestTooLarge, UnsupportedMediaType, RateLimited, Unavailable),
    )
}


def render_error(error: Exception, context: dict[str, Any]) -> Response | None:
    """Give DRF's own errors and ours Anthropic's form; leave the rest to the server-error page."""
    ours = _as_ours(error)
    if ours is None:
        return None
    return Response(_body(context["request"], ours), status=ours.status, headers=ours.headers)


def _as_ours(error: Exception) -> ApiError | None:
    match error:
        case ApiError():
            return error
        case Http404():
            return NotFound("Not found.")
        case PagePermissionDenied():
            return PermissionDenied("This key may not do this.")
        case APIException():
            kind = _BY_STATUS.get(error.status_code, InvalidRequest if error.status_code < 500 else ApiError)
            wait: float | None = getattr(error, "wait", None)  # of `Throttled`
            return kind(_text(error.detail), headers={"retry-after": f"{wait:.0f}"} if wait else None)
    return None


def _text(detail: Any) -> str:
    """Make one line of what DRF says about one field or many."""
    if isinstance(detail, dict):
        return " ".join(f"{name}: {_text(value)}" for name, value in detail.items())
    if isinstance(detail, list):
        return " ".join(map(_text, detail))
    return str(detail)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    """Answer a request that Django refused before any view saw it."""
    if _is_page(request.path):
        return defaults.bad_request(request, exception)
    if isinstance(exception, DisallowedHost):
        return _json(request, InvalidRequest("Host: no host of this site (SLUICE_ALLOWED_HOSTS lists them)."))
    told = str(exception) if isinstance(exception, BadRequest) else ""  # others may say too much
    return _json(request, InvalidRequest(told or "The request cannot be read."))


def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    """Answer a request that a view refused."""
    if _is_page(request.path):
        return defaults.permission_denied(request, exception)
    return _json(request, PermissionDenied("You may not do this."))


def not_found(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    """Answer a path that nobody serves."""
    if _is_page(request.path):
        return defaults.page_not_found(request, exception)
    return _json(request, NotFound(f"No such path: {request.method} {request.path}", code="unknown_url"))


def server_error(request: HttpRequest) -> HttpResponseBase:
    """Answer when a view failed, perhaps for want of the database; the log has the reason."""
    if isinstance(sys.exception(), OperationalError | InterfaceError):
        away = Unavailable("The database does not answer now.", headers={"retry-after": "5"})
        if _is_page(request.path):
            return HttpResponse(away.message, "text/plain", away.status, headers=away.headers)
        return _json(request, away)
    if _is_page(request.path):
        return defaults.server_error(request)
    return _json(request, ApiError("The server failed to answer this request. It has been logged."))


def unreadable() -> HttpResponse:
    """Answer what cannot be made a request of: its query is not UTF-8."""
    request_id = new_id("req")
    body = anthropic_form(InvalidRequest("The query of the URL is not UTF-8."), request_id)
    return JsonResponse(body, status=400, headers={"request-id": request_id, "x-request-id": request_id})


def _is_page(path: str) -> bool:
    return path.startswith(PAGES)


def _json(request: HttpRequest, error: ApiError) -> JsonResponse:
    return JsonResponse(_body(request, error), status=error.status, headers=error.headers)


def _body(request: HttpRequest | Request, error: ApiError) -> dict[str, Any]:
    return error_body(error, request_id_of(request), path=request.path, header=request.headers.get)
