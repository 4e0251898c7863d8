"""curl, as the README and `make run` tell people to use it."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Iterator

import pytest

from tests.e2e.conftest import Product, a_body

pytestmark = pytest.mark.clients


def curl(product: Product, key: str, path: str, body: dict[str, object]) -> Iterator[tuple[float, str]]:
    """Yield each line that curl prints, and when it came."""
    program = shutil.which("curl")
    assert program, "install curl"
    command = [
        program, "-sS", "-N", "--fail-with-body", "--max-time", "30", product.url + path,
        "-H", f"x-api-key: {key}", "-H", "content-type: application/json", "-d", json.dumps(body),
    ]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        for line in process.stdout:
            yield time.monotonic(), line.rstrip("\n")
    assert process.returncode == 0


def test_events_come_as_they_are_made(product: Product, key: str) -> None:
    lines = list(curl(product, key, "/v1/messages", a_body(max_tokens=100, stream=True)))
    names = [line.removeprefix("event: ") for _, line in lines if line.startswith("event: ")]
    assert names[0] == "message_start"
    assert "ping" in names
    assert [line for _, line in lines][-3:] == ["event: message_stop", 'data: {"type":"message_stop"}', ""]
    deltas = [at for at, line in lines if line == "event: content_block_delta"]
    assert len(deltas) == 100
    assert deltas[-1] - deltas[0] > 0.3, "100 tokens of 5 ms"
    (begin, _), *_ = lines
    assert deltas[0] - begin > 0.1, "the stream begins before there is a token"


def test_openais_chunks(product: Product, key: str) -> None:
    lines = [line for _, line in curl(product, key, "/v1/chat/completions", a_body(max_tokens=20, stream=True))]
    assert lines[-2:] == ["data: [DONE]", ""]
    assert ": ping" in lines
    chunks = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
    assert len(chunks) == 22
    assert {line.partition(":")[0] for line in lines} <= {"data", "", "retry"}


def test_it_fails_with_the_error(product: Product, key: str) -> None:
    with pytest.raises(AssertionError):
        list(curl(product, key, "/v1/messages", a_body(max_tokens=0, stream=True)))
