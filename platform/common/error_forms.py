"""The forms that errors are told in, and which of them a caller reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from common.errors import ApiError

OPENAI_PATH = "/v1/chat/"
SHARED_PATH = "/v1/models"  # both kinds of clients ask here

Headers = Callable[[str], str | None]  # the value of a request's header, by its name in lower case


def error_body(error: ApiError, request_id: str, *, path: str, header: Headers) -> dict[str, Any]:
    """Return the body of the answer that tells of an error, in the form that who asked for `path` reads."""
    return openai_form(error) if speaks_openai(path, header) else anthropic_form(error, request_id)


def speaks_openai(path: str, header: Headers) -> bool:
    """Say whether a request is one in OpenAI's form. On shared paths Anthropic's clients tell their version."""
    if path == SHARED_PATH or path.startswith(SHARED_PATH + "/"):
        return bool(header("authorization")) and not (header("anthropic-version") or header("x-api-key"))
    return path.startswith(OPENAI_PATH)


def anthropic_form(error: ApiError, request_id: str | None) -> dict[str, Any]:
    """Return Anthropic's form of an error. One within a batch came with no request of its own."""
    told: dict[str, Any] = {"type": error.kind, "message": error.message}
    if error.details:
        told["details"] = error.details
    return {"type": "error", "error": told, "request_id": request_id}


def openai_form(error: ApiError) -> dict[str, Any]:
    """Return OpenAI's form of an error; the request's id is in the headers."""
    code = error.code or ("invalid_value" if error.param and error.status == 400 else None)
    return openai_error(error.message, error.kind, param=error.param, code=code)


def openai_error(message: str, kind: str, *, param: str | None, code: str | None) -> dict[str, Any]:
    """Return the object that OpenAI's clients make an error of."""
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}
