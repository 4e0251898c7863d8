"""The forms of errors."""

from __future__ import annotations

import pytest

from common.error_forms import anthropic_form, error_body, openai_form, speaks_openai
from common.errors import ApiError, AuthenticationFailed, InvalidRequest, NotFound

BEARER = {"authorization": "Bearer k"}


def test_it_works() -> None:
    error = InvalidRequest("max_tokens: expected a number.")
    told = {"type": "invalid_request_error", "message": "max_tokens: expected a number."}
    assert anthropic_form(error, "req_1") == {"type": "error", "error": told, "request_id": "req_1"}
    assert openai_form(error) == {"error": told | {"param": "max_tokens", "code": "invalid_value"}}


@pytest.mark.parametrize(
    ("error", "param", "code"),
    [
        (InvalidRequest("messages[0].content: expected some text."), "messages[0].content", "invalid_value"),
        (InvalidRequest("x: no such field.", code="unknown_parameter"), "x", "unknown_parameter"),
        (InvalidRequest("The body is not valid JSON: oh."), None, None),
        (NotFound("model: a is not served here.", code="model_not_found"), "model", "model_not_found"),
        (AuthenticationFailed("Invalid API key."), None, "invalid_api_key"),
        (ApiError("redis: away"), None, "server_error"),
    ],
)
def test_openais_words(error: ApiError, param: str | None, code: str | None) -> None:
    told = openai_form(error)["error"]
    assert (told["param"], told["code"]) == (param, code)


@pytest.mark.parametrize(
    ("path", "headers", "openai"),
    [
        ("/v1/chat/completions", {}, True),
        ("/v1/chat/completions", {"anthropic-version": "2023-06-01"}, True),
        ("/v1/messages", BEARER, False),
        ("/v1/models", BEARER, True),
        ("/v1/models/a", BEARER, True),
        ("/v1/models", BEARER | {"anthropic-version": "2023-06-01"}, False),
        ("/v1/models", {"x-api-key": "k"}, False),
        ("/v1/models", {}, False),
        ("/v1/modelshow", BEARER, False),
    ],
)
def test_which_form_a_caller_reads(path: str, headers: dict[str, str], openai: bool) -> None:
    assert speaks_openai(path, headers.get) is openai
    body = error_body(NotFound("No."), "req_1", path=path, header=headers.get)
    assert ("param" in body["error"], "request_id" in body) == (openai, not openai)
