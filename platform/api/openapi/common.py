"""What operations have in common, whoever serves them: headers, errors in both forms, how callers show who they are."""

from __future__ import annotations

from typing import Any

from common.errors import (
    ApiError,
    AuthenticationFailed,
    Conflict,
    Gone,
    HeadersTooLarge,
    InvalidRequest,
    MethodNotAllowed,
    NotAcceptable,
    NotFound,
    Overloaded,
    PermissionDenied,
    RateLimited,
    RequestTooLarge,
    Timeout,
    TooSlow,
    Unavailable,
    UnsupportedMediaType,
    UrlTooLong,
)
from quotas.headers import NAMES as RATE_LIMITS

Json = dict[str, Any]

ERRORS: tuple[type[ApiError], ...] = (
    *(InvalidRequest, AuthenticationFailed, PermissionDenied, NotFound, MethodNotAllowed, NotAcceptable, TooSlow),
    *(Conflict, Gone, RequestTooLarge, UrlTooLong, UnsupportedMediaType, RateLimited, HeadersTooLarge),
    *(ApiError, Unavailable, Timeout, Overloaded),
)
# What any request may meet, those with a key, and those with a body.
ALWAYS: tuple[type[ApiError], ...] = (InvalidRequest, TooSlow, UrlTooLong, UnsupportedMediaType, HeadersTooLarge)
ALWAYS += (ApiError, Unavailable)
WITH_KEY: tuple[type[ApiError], ...] = (*ALWAYS, AuthenticationFailed, PermissionDenied)
WITH_BODY: tuple[type[ApiError], ...] = (RequestTooLarge,)

BOTH_KEYS: list[dict[str, list[str]]] = [{"apiKey": []}, {"bearer": []}]
SECURITY_SCHEMES: Json = {
    "apiKey": {"type": "apiKey", "in": "header", "name": "x-api-key", "description": "The API key, as Anthropic's."},
    "bearer": {"type": "http", "scheme": "bearer", "description": "The API key, as OpenAI's clients send it."},
    "streamToken": {
        "type": "apiKey",
        "in": "query",
        "name": "token",
        "description": "The token within a `stream_url`: for that one stream, and no longer than it.",
    },
    "metricsToken": {
        "type": "http",
        "scheme": "bearer",
        "description": "`SLUICE_METRICS_TOKEN`; a request from the server's own machine needs none.",
    },
}


def ref(name: str, kind: str = "schemas") -> Json:
    """Return a reference to a component."""
    return {"$ref": f"#/components/{kind}/{name}"}


def header(about: str, **schema: Any) -> Json:
    """Return a header of an answer."""
    return {"description": about, "schema": {"type": "string"} | schema}


HEADERS: Json = {
    "request-id": header("The request's id, which the server's log has, too.", pattern="^req_") | {"required": True},
    "x-request-id": header("The same, under OpenAI's name.", pattern="^req_") | {"required": True},
    "retry-after": header("In how many seconds to try again.", pattern="^[0-9]+$"),
    "x-should-retry": header("That trying again soon is of no use.", enum=["false"]),
    "www-authenticate": header("How to show who you are.", enum=["Bearer"]),
    "cache-control": header("That the answer is not to be kept.", enum=["no-store"]),
    "allow": header("The methods that the path knows."),
} | {
    name: header(
        "When the limit is whole again." if "reset" in name else f"The limit's {name.split('-')[2]}.",
        **({} if "reset" in name else {"pattern": "^[0-9]+$"}),
    )
    for name in RATE_LIMITS
}
EVERY_ANSWER = ("request-id", "x-request-id")
ANTHROPIC_LIMITS = tuple(name for name in RATE_LIMITS if name.startswith("anthropic-"))
OPENAI_LIMITS = tuple(name for name in RATE_LIMITS if name.startswith("x-"))


def headers(*names: str) -> Json:
    """Return the headers that every answer has, and some that it may have."""
    return {name: ref(name, "headers") for name in (*EVERY_ANSWER, *names)}


_KINDS = sorted({kind.kind for kind in ERRORS})
ERROR_SCHEMAS: Json = {
    "Error": {
        "type": "object",
        "description": "An error in Anthropic's form.",
        "properties": {
            "type": {"const": "error"},
            "error": {
                "type": "object",
                "properties": {
                    "type": {"enum": _KINDS, "description": "What kind of error it is."},
                    "message": {"type": "string", "description": "Begins with the field that it is about."},
                    "details": {"type": "object", "description": "What official clients know some errors by."},
                },
                "required": ["type", "message"],
            },
            "request_id": {"type": "string"},
        },
        "required": ["type", "error", "request_id"],
        "examples": [
            {
                "type": "error",
                "error": {"type": "invalid_request_error", "message": "max_tokens: this field is required."},
                "request_id": "req_0190f3a1b2c34d5e6f708192a3b4c5d6",
            }
        ],
    },
    "OpenAIError": {
        "type": "object",
        "description": "An error in OpenAI's form; the request's id is in the headers.",
        "properties": {
            "error": {
                "type": "object",
                "properties": {
                    "message": {"type": "string", "description": "Begins with the field that it is about."},
                    "type": {"enum": _KINDS, "description": "What kind of error it is."},
                    "param": {"type": ["string", "null"], "description": "The field."},
                    "code": {"type": ["string", "null"], "description": "What is wrong, in a word."},
                },
                "required": ["message", "type", "param", "code"],
            },
        },
        "required": ["error"],
        "examples": [
            {
                "error": {
                    "message": "messages: this field is required.",
                    "type": "invalid_request_error",
                    "param": "messages",
                    "code": "missing_required_parameter",
                }
            }
        ],
    },
}
_FORMS: dict[str, Json] = {
    "": ref("Error"),
    "OpenAI": ref("OpenAIError"),
    "Either": {"anyOf": [ref("Error"), ref("OpenAIError")]},
}
_MORE_HEADERS: dict[type[ApiError], tuple[str, ...]] = {
    MethodNotAllowed: ("allow",),
    Conflict: ("x-should-retry",),
    RateLimited: ("retry-after", "x-should-retry", *RATE_LIMITS),
    Unavailable: ("retry-after",),
    Overloaded: ("retry-after",),
}


def about(kind: type[ApiError]) -> str:
    """Say in a sentence when an error is met."""
    if kind is ApiError:  # of which all others are kinds
        return "When the fault is ours. The server's log has the reason, under the request's id."
    text = (kind.__doc__ or "").removeprefix("Raised ")
    return text[0].upper() + text[1:]


def error_responses() -> Json:
    """Return the components that tell of each error in each form."""
    return {
        kind.__name__ + form: {
            "description": about(kind),
            "headers": headers(*_MORE_HEADERS.get(kind, ())),
            "content": {"application/json": {"schema": schema}},
        }
        for kind in ERRORS
        for form, schema in _FORMS.items()
    }


def errors(*kinds: type[ApiError], form: str = "") -> Json:
    """Return an operation's answers that are errors."""
    in_order = sorted(set(kinds), key=lambda kind: kind.status)
    return {str(kind.status): ref(kind.__name__ + form, "responses") for kind in in_order}


def components() -> Json:
    """Return what operations refer to."""
    return {
        "schemas": ERROR_SCHEMAS,
        "responses": error_responses(),
        "headers": HEADERS,
        "securitySchemes": SECURITY_SCHEMES,
    }
