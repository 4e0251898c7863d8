"""The clients of the npm registry, each in a small script that prints what it saw."""

from __future__ import annotations

import pytest

from tests.clients.conftest import SAID, Script
from tests.e2e.conftest import Product, records_of

pytestmark = pytest.mark.clients


def test_anthropics_sdk(script: Script) -> None:
    seen = script("anthropic.mjs")
    deltas = seen["kinds"].count("content_block_delta")
    assert seen["kinds"] == [
        "message_start", "content_block_start", *["content_block_delta"] * deltas,
        "content_block_stop", "message_delta", "message_stop",
    ]  # fmt: skip
    assert (seen["heard"], seen["text"], seen["finalText"]) == (SAID, SAID, SAID)
    assert seen["stopReason"] == "end_turn"
    assert seen["usage"]["output_tokens"] >= deltas > 5
    assert seen["requestId"].startswith("req_")
    assert seen["models"] == ["SmolLM2-135M-Instruct"]
    assert seen["counted"] == seen["usage"]["input_tokens"]
    assert seen["errors"] == [
        ["BadRequestError", 400, "invalid_request_error"],
        ["AuthenticationError", 401, "authentication_error"],
        ["NotFoundError", 404, "not_found_error"],
    ]


def test_anthropics_sdk_aborts(script: Script, product: Product) -> None:
    key = product.manage("createkey", "aborts", "--org", "aborts")
    seen = script("anthropic.mjs", "abort", SLUICE_KEY=key)
    assert seen == {"aborted": True, "error": "APIUserAbortError"}
    (row,) = records_of(product, key, 1)
    assert row["outcome"] == "client_gone"


def test_openais_sdk(script: Script) -> None:
    seen = script("openai.mjs")
    assert (seen["text"], seen["finalText"], seen["created"]) == (SAID, SAID, SAID)
    assert seen["finishReason"] == "stop"
    usage = seen["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"] > 10
    assert seen["usages"] == 1
    assert seen["models"] == ["SmolLM2-135M-Instruct"]
    assert seen["errors"] == [
        ["BadRequestError", 400, "invalid_request_error"],
        ["AuthenticationError", 401, "authentication_error"],
        ["NotFoundError", 404, "not_found_error"],
    ]


def test_the_ai_package(script: Script) -> None:
    seen = script("ai.mjs")
    assert (seen["streamed"], seen["generated"]) == (SAID, SAID)
    assert seen["finishReason"] == "stop"
    assert seen["usage"]["outputTokens"] > 5
    assert seen["usage"]["inputTokens"] > 10
    assert seen["errors"] == []
    assert seen["refused"] == 404


def test_fetch_and_eventsource_parser(script: Script) -> None:
    seen = script("fetch.mjs")
    assert seen["status"] == [202, 200, 200, 204]
    assert seen["ids"] == [str(i) for i in range(1, len(seen["ids"]) + 1)]
    assert seen["text"] == seen["message"]
    assert seen["last"] == "message_stop"
    assert seen["retry"] >= 2000
