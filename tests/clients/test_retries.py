"""What clients make of refusals and of errors in mid-stream: when they try again, how often, and what they raise."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import anthropic
import httpx
import openai
import pytest

from tests.e2e.conftest import Product, a_body

pytestmark = pytest.mark.clients


@pytest.fixture(scope="module")
def narrow() -> Iterator[Product]:
    """One place in the queue, three seconds for a request."""
    environment = {"SLUICE_QUEUE_LIMIT": "1", "SLUICE_REQUEST_TIMEOUT_S": "3", "SLUICE_SIM_TPOT_MS": "5"}
    product = Product(("--engine", "simulated"), environment).start()
    yield product
    assert product.stop() == 0, product.log[-4000:]


@pytest.fixture(scope="module")
def narrow_key(narrow: Product) -> str:
    return narrow.manage("createkey", "narrow")


@pytest.fixture
def wake(narrow: Product, narrow_key: str) -> Iterator[Callable[[], None]]:
    """Has the worker sleep and the queue full; calling it wakes the worker."""
    (worker,) = narrow.processes("-m inference")
    os.kill(worker, signal.SIGSTOP)

    def wake() -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(worker, signal.SIGCONT)

    try:
        for _ in range(10):  # the worker may have been waiting, and have taken some
            r = httpx.post(narrow.url + "/v1/streams", json=a_body(max_tokens=1), headers={"x-api-key": narrow_key})
            if r.status_code == 529:
                break
        assert r.status_code == 529
        yield wake
    finally:
        wake()
        deadline = time.monotonic() + 20
        while not narrow.ready() and time.monotonic() < deadline:
            time.sleep(0.1)


class Attempts:
    """Counts the responses that a client gets, and acts upon the first."""

    def __init__(self, first: Callable[[], None] = lambda: None) -> None:
        self.statuses: list[int] = []
        self._first = first

    def __call__(self, response: Any) -> None:
        self.statuses.append(response.status_code)
        if len(self.statuses) == 1:
            self._first()


def an_anthropic(product: Product, key: str, attempts: Attempts, max_retries: int) -> anthropic.Anthropic:
    http = anthropic.DefaultHttpxClient(event_hooks={"response": [attempts]})
    return anthropic.Anthropic(api_key=key, base_url=product.url, max_retries=max_retries, http_client=http)


def test_anthropics_client_retries_until_there_is_room(
    narrow: Product, narrow_key: str, wake: Callable[[], None]
) -> None:
    attempts = Attempts(first=wake)
    begin = time.monotonic()
    with (
        an_anthropic(narrow, narrow_key, attempts, 2) as client,
        client.messages.stream(model="default", max_tokens=4, messages=[{"role": "user", "content": "Hi."}]) as stream,
    ):
        assert stream.get_final_message().usage.output_tokens == 4
    assert attempts.statuses == [529, 200]
    assert time.monotonic() - begin > 1.5, "it waited for as long as retry-after says"


def test_anthropics_client_gives_up_with_its_error(narrow: Product, narrow_key: str, wake: Callable[[], None]) -> None:
    for retries in (0, 1):
        attempts = Attempts()
        with (
            an_anthropic(narrow, narrow_key, attempts, retries) as client,
            pytest.raises(anthropic.InternalServerError) as caught,
        ):
            client.messages.create(model="default", max_tokens=4, messages=[{"role": "user", "content": "Hi."}])
        assert attempts.statuses == [529] * (retries + 1)
        assert (caught.value.status_code, caught.value.type) == (529, "overloaded_error")
        assert caught.value.response.headers["retry-after"]


def test_openais_client_retries_until_there_is_room(narrow: Product, narrow_key: str, wake: Callable[[], None]) -> None:
    attempts = Attempts(first=wake)
    http = openai.DefaultHttpxClient(event_hooks={"response": [attempts]})
    with openai.OpenAI(api_key=narrow_key, base_url=narrow.url + "/v1", max_retries=2, http_client=http) as client:
        completion = client.chat.completions.create(
            model="default", max_tokens=4, messages=[{"role": "user", "content": "Hi."}]
        )
    assert completion.choices[0].finish_reason == "length"
    assert attempts.statuses == [529, 200]


def test_anthropics_client_raises_an_error_in_mid_stream(narrow: Product, narrow_key: str) -> None:
    with anthropic.Anthropic(api_key=narrow_key, base_url=narrow.url, max_retries=0) as client:
        with (
            pytest.raises(anthropic.APIStatusError) as caught,
            client.messages.stream(
                model="default", max_tokens=4000, messages=[{"role": "user", "content": "Talk."}]
            ) as stream,
        ):
            list(stream)
        assert caught.value.type == "timeout_error"
        assert stream.current_message_snapshot.content, "what came before it stays"


def test_openais_client_raises_an_error_in_mid_stream(narrow: Product, narrow_key: str) -> None:
    with (
        openai.OpenAI(api_key=narrow_key, base_url=narrow.url + "/v1", max_retries=0) as client,
        pytest.raises(openai.APIError) as caught,
        client.chat.completions.create(
            model="default", max_tokens=4000, messages=[{"role": "user", "content": "Talk."}], stream=True
        ) as stream,
    ):
        list(stream)
    assert caught.value.type == "timeout_error"


def test_a_conflict_is_not_tried_again(product: Product, key: str) -> None:
    attempts = Attempts()
    with an_anthropic(product, key, attempts, 2) as client:
        for text in ("One.", "Another."):
            with contextlib.suppress(anthropic.ConflictError):
                client.messages.create(
                    model="default",
                    max_tokens=1,
                    messages=[{"role": "user", "content": text}],
                    extra_headers={"idempotency-key": "the-same"},
                )
    assert attempts.statuses == [200, 409]


@pytest.fixture(scope="module")
def lone() -> Iterator[Product]:
    """One gateway, with three seconds to drain in."""
    product = Product(("--engine", "simulated"), {"SLUICE_DRAIN_S": "3", "SLUICE_SIM_TPOT_MS": "5"}).start()
    yield product
    assert product.stop() == 0, product.log[-4000:]


@pytest.fixture(scope="module")
def lone_key(lone: Product) -> str:
    return lone.manage("createkey", "lone")


@pytest.fixture
def stopping(lone: Product, lone_key: str) -> Iterator[None]:
    """Has the gateway drain, with a stream open: 503, then nobody, then the next gateway."""
    (gateway,) = lone.processes("manage.py gateway")
    body = a_body(max_tokens=4000, stream=True)
    with httpx.stream("POST", lone.url + "/v1/messages", json=body, headers={"x-api-key": lone_key}) as response:
        lines = response.iter_lines()  # kept: without it the stream would be closed
        next(lines)
        os.kill(gateway, signal.SIGTERM)
        deadline = time.monotonic() + 5
        while httpx.get(lone.url + "/readyz").status_code != 503 and time.monotonic() < deadline:
            time.sleep(0.02)
        yield
    deadline = time.monotonic() + 30
    while not lone.ready() and time.monotonic() < deadline:
        time.sleep(0.1)


def test_anthropics_client_waits_for_the_next_gateway(lone: Product, lone_key: str, stopping: None) -> None:
    attempts = Attempts()
    with an_anthropic(lone, lone_key, attempts, 12) as client:
        message = client.messages.create(model="default", max_tokens=4, messages=[{"role": "user", "content": "Hi."}])
    assert message.usage.output_tokens == 4
    assert attempts.statuses[0] == 503
    assert attempts.statuses[-1] == 200


def test_openais_client_waits_for_the_next_gateway(lone: Product, lone_key: str, stopping: None) -> None:
    attempts = Attempts()
    http = openai.DefaultHttpxClient(event_hooks={"response": [attempts]})
    with openai.OpenAI(api_key=lone_key, base_url=lone.url + "/v1", max_retries=12, http_client=http) as client:
        completion = client.chat.completions.create(
            model="default", max_tokens=4, messages=[{"role": "user", "content": "Hi."}]
        )
    assert completion.choices[0].finish_reason == "length"
    assert attempts.statuses[0] == 503
    assert attempts.statuses[-1] == 200


def test_who_does_not_wait_gets_their_errors(lone: Product, lone_key: str, stopping: None) -> None:
    with an_anthropic(lone, lone_key, Attempts(), 0) as client, pytest.raises(anthropic.InternalServerError) as one:
        client.messages.create(model="default", max_tokens=4, messages=[{"role": "user", "content": "Hi."}])
    assert (one.value.status_code, one.value.type) == (503, "api_error")
    assert float(one.value.response.headers["retry-after"]) > 0
    with (
        openai.OpenAI(api_key=lone_key, base_url=lone.url + "/v1", max_retries=0) as client,
        pytest.raises(openai.InternalServerError) as other,
    ):
        client.chat.completions.create(model="default", max_tokens=4, messages=[{"role": "user", "content": "Hi."}])
    assert other.value.status_code == 503


def busy_key(product: Product, name: str) -> str:
    """A key whose only stream is taken for a second or two."""
    key = product.manage("createkey", name, "--org", name, "--max-streams", "1")
    r = httpx.post(product.url + "/v1/streams", json=a_body(max_tokens=250), headers={"x-api-key": key})
    assert r.status_code == 202
    return key


def test_anthropics_client_waits_for_its_limit(narrow: Product) -> None:
    attempts = Attempts()
    with an_anthropic(narrow, busy_key(narrow, "limited-a"), attempts, max_retries=8) as client:
        message = client.messages.create(model="default", max_tokens=1, messages=[{"role": "user", "content": "Hi"}])
    assert message.usage.output_tokens == 1
    assert attempts.statuses[0] == 429
    assert attempts.statuses[-1] == 200


def test_anthropics_client_raises_its_error_of_limits(narrow: Product) -> None:
    with (
        an_anthropic(narrow, busy_key(narrow, "limited-b"), Attempts(), max_retries=0) as client,
        pytest.raises(anthropic.RateLimitError) as caught,
    ):
        client.messages.create(model="default", max_tokens=1, messages=[{"role": "user", "content": "Hi"}])
    assert int(caught.value.response.headers["retry-after"]) >= 1
    assert "stream" in str(caught.value)


def test_openais_client_waits_for_its_limit(narrow: Product) -> None:
    attempts = Attempts()
    http = openai.DefaultHttpxClient(event_hooks={"response": [attempts]})
    key = busy_key(narrow, "limited-c")
    with openai.OpenAI(api_key=key, base_url=narrow.url + "/v1", max_retries=8, http_client=http) as client:
        answer = client.chat.completions.create(
            model="default", max_tokens=1, messages=[{"role": "user", "content": "Hi"}]
        )
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 1
    assert attempts.statuses[0] == 429
    assert attempts.statuses[-1] == 200
