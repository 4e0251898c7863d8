"""The one tree of API errors. Code raises; `common.error_forms` gives them the form that the caller reads."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

_SUBJECT = re.compile(r"[\w$.\[\]-]+(?=: )")


class ApiError(Exception):
    """Raised for whatever a caller is told of; `kind` and `status` follow Anthropic's table, `code` OpenAI's words."""

    kind: ClassVar[str] = "api_error"
    status: ClassVar[int] = 500
    code: str | None = "server_error"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.code
        self.headers = dict(headers or {})
        self.details = dict(details or {})  # what Anthropic's clients tell some errors by

    @property
    def param(self) -> str | None:
        """The field, parameter or header that the message begins with: `max_tokens` of "max_tokens: expected …"."""
        subject = _SUBJECT.match(self.message) if self.status < 500 else None
        return subject[0] if subject else None


class InvalidRequest(ApiError):
    """Raised when the body or a parameter will not do; the message begins with the field."""

    kind, status, code = "invalid_request_error", 400, None


class AuthenticationFailed(ApiError):
    """Raised when there is no key, or not one we know."""

    kind, status, code = "authentication_error", 401, "invalid_api_key"


class PermissionDenied(ApiError):
    """Raised when the key may not do this."""

    kind, status, code = "permission_error", 403, "missing_scope"


class NotFound(ApiError):
    """Raised when the path, the model or the message is not there for this caller; `code` tells which."""

    kind, status, code = "not_found_error", 404, None


class MethodNotAllowed(ApiError):
    """Raised when the path knows other methods; `Allow` lists them."""

    kind, status, code = "invalid_request_error", 405, "method_not_supported"


class NotAcceptable(ApiError):
    """Raised when the caller accepts nothing that we could answer with."""

    kind, status, code = "invalid_request_error", 406, None


class TooSlow(ApiError):
    """Raised when a request has not arrived within `SLUICE_RECEIVE_TIMEOUT_S`."""

    kind, status, code = "timeout_error", 408, "timeout"


class Conflict(ApiError):
    """Raised when an idempotency key comes again with another body. Clients are told not to try that again."""

    kind, status, code = "conflict_error", 409, None

    def __init__(self, message: str) -> None:
        super().__init__(message, headers={"x-should-retry": "false"})


class Gone(ApiError):
    """Raised when a stream's log has expired."""

    kind, status, code = "not_found_error", 410, None


class RequestTooLarge(ApiError):
    """Raised when the body passes `SLUICE_MAX_BODY_MB`."""

    kind, status, code = "request_too_large", 413, None


class UrlTooLong(ApiError):
    """Raised when the line with the URL is longer than we read."""

    kind, status, code = "invalid_request_error", 414, None


class UnsupportedMediaType(ApiError):
    """Raised when the body is of a type, or compressed in a way, that we do not read."""

    kind, status, code = "invalid_request_error", 415, None


class HeadersTooLarge(ApiError):
    """Raised when the headers are more, or longer, than we read."""

    kind, status, code = "invalid_request_error", 431, None


class RateLimited(ApiError):
    """Raised when a limit of the key or its organisation is reached; carries `retry-after`."""

    kind, status, code = "rate_limit_error", 429, "rate_limit_exceeded"


class Unavailable(ApiError):
    """Raised while we cannot serve: draining, no Redis, or no worker yet; carries `retry-after`."""

    status = 503


class Timeout(ApiError):
    """Raised when a request waited or ran too long."""

    kind, status, code = "timeout_error", 504, "timeout"


class Overloaded(ApiError):
    """Raised when the queue is full."""

    kind, status, code = "overloaded_error", 529, "server_is_overloaded"
