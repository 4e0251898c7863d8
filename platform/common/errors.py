"""The one tree of API errors. Code raises; each surface renders them in one place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class ApiError(Exception):
    """Raised for whatever a caller is told of; `kind` and `status` follow Anthropic's table."""

    kind = "api_error"
    status = 500

    def __init__(self, message: str, *, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.headers = dict(headers or {})

    def body(self, request_id: str) -> dict[str, Any]:
        """Return Anthropic's form of the error."""
        return {"type": "error", "error": {"type": self.kind, "message": self.message}, "request_id": request_id}


class InvalidRequest(ApiError):
    """Raised when the body or a parameter will not do; the message names the field."""

    kind, status = "invalid_request_error", 400


class AuthenticationFailed(ApiError):
    """Raised when there is no key, or not one we know."""

    kind, status = "authentication_error", 401


class PermissionDenied(ApiError):
    """Raised when the key may not do this."""

    kind, status = "permission_error", 403


class NotFound(ApiError):
    """Raised when the path, the model or the message is not there for this caller."""

    kind, status = "not_found_error", 404


class MethodNotAllowed(ApiError):
    """Raised when the path knows other methods; `Allow` lists them."""

    kind, status = "invalid_request_error", 405


class NotAcceptable(ApiError):
    """Raised when the caller accepts nothing that we could answer with."""

    kind, status = "invalid_request_error", 406


class Conflict(ApiError):
    """Raised when an idempotency key comes again with another body. Clients are told not to try that again."""

    kind, status = "conflict_error", 409

    def __init__(self, message: str) -> None:
        super().__init__(message, headers={"x-should-retry": "false"})


class Gone(ApiError):
    """Raised when a stream's log has expired."""

    kind, status = "not_found_error", 410


class RequestTooLarge(ApiError):
    """Raised when the body passes `SLUICE_MAX_BODY_MB`."""

    kind, status = "request_too_large", 413


class UnsupportedMediaType(ApiError):
    """Raised when the body is of a type that we do not read."""

    kind, status = "invalid_request_error", 415


class RateLimited(ApiError):
    """Raised when a limit of the key or its organisation is reached; carries `retry-after`."""

    kind, status = "rate_limit_error", 429


class Unavailable(ApiError):
    """Raised while we cannot serve: draining, no Redis, or no worker yet; carries `retry-after`."""

    status = 503


class Timeout(ApiError):
    """Raised when a request waited or ran too long."""

    kind, status = "timeout_error", 504


class Overloaded(ApiError):
    """Raised when the queue is full."""

    kind, status = "overloaded_error", 529
