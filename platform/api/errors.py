"""Every error of Django's side, in the one form that the streams use too."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from rest_framework import exceptions
from rest_framework.response import Response

from common.errors import (
    ApiError,
    AuthenticationFailed,
    InvalidRequest,
    MethodNotAllowed,
    NotFound,
    PermissionDenied,
    RateLimited,
)
from common.ids import new_id

_FROM_DRF: tuple[tuple[type[Exception], type[ApiError]], ...] = (
    (exceptions.NotAuthenticated, AuthenticationFailed),
    (exceptions.AuthenticationFailed, AuthenticationFailed),
    (exceptions.PermissionDenied, PermissionDenied),
    (exceptions.NotFound, NotFound),
    (Http404, NotFound),
    (exceptions.MethodNotAllowed, MethodNotAllowed),
    (exceptions.Throttled, RateLimited),
    (exceptions.APIException, InvalidRequest),
)


def render_error(error: Exception, context: dict[str, Any]) -> Response | None:
    """Give DRF's own errors and ours Anthropic's form; leave the rest to the server-error page."""
    if not isinstance(error, ApiError):
        kind = next((ours for theirs, ours in _FROM_DRF if isinstance(error, theirs)), None)
        if kind is None:
            return None
        error = kind(str(getattr(error, "detail", error)))
    request_id = new_id("req")
    return Response(error.body(request_id), status=error.status, headers={"request-id": request_id} | error.headers)


def _page(error: ApiError) -> JsonResponse:
    request_id = new_id("req")
    return JsonResponse(error.body(request_id), status=error.status, headers={"request-id": request_id})


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer a path that nobody serves."""
    return _page(NotFound(f"No such path: {request.method} {request.path}"))


def server_error(request: HttpRequest) -> HttpResponse:
    """Answer when a view failed; the log has the reason."""
    return _page(ApiError("The server failed to answer this request. It has been logged."))
