from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command

from accounts.keys import find_key
from tests.config.loadtest.server import Step, TinyServer, answer, refusal, serving


@contextmanager
def served(script: Callable[[int], Sequence[Step]]) -> Iterator[TinyServer]:
    """A tiny server in a thread, since the command has a loop of its own."""
    ready: list[TinyServer] = []
    begun, loop = threading.Event(), asyncio.new_event_loop()
    over = asyncio.Event()

    async def serve() -> None:
        async with serving(script) as tiny:
            ready.append(tiny)
            begun.set()
            await over.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    assert begun.wait(5)
    try:
        yield ready[0]
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(5)
        loop.close()


def run(capsys: pytest.CaptureFixture[str], *arguments: str, **options: Any) -> Any:
    call_command("loadtest", *arguments, "--json", "--key", "sk-test", **options)
    return json.loads(capsys.readouterr().out)


def test_it_works(capsys: pytest.CaptureFixture[str]) -> None:
    with served(lambda _: answer(3)) as tiny:
        got = run(capsys, "--url", tiny.url, "--concurrency", "3", "--requests", "9", "--check")

    assert (got["done"], got["failed"], got["met"]) == (9, 0, True)
    assert got["load"] == {"kind": "closed", "concurrency": 3}


def test_a_missed_target_is_an_error_only_with_check(capsys: pytest.CaptureFixture[str]) -> None:
    with served(lambda _: refusal(500, "api_error")) as tiny:
        got = run(capsys, "--url", tiny.url, "--requests", "3")
        with pytest.raises(SystemExit) as exit_:
            run(capsys, "--url", tiny.url, "--requests", "3", "--check")

    assert (got["met"], got["errors"]) == (False, {"http 500 api_error": 3})
    assert exit_.value.code == 1


@pytest.mark.django_db(transaction=True)  # it closes its connection
def test_without_a_key_it_takes_the_demo_key_of_this_machine(capsys: pytest.CaptureFixture[str]) -> None:
    with served(lambda _: answer(1)) as tiny:
        call_command("loadtest", "--url", tiny.url, "--requests", "1")

    assert tiny.keys == [(settings.SLUICE.home_path / "demo.key").read_text().strip()]
    assert find_key(tiny.keys[0])
    assert "1 requests: 1 done, 0 failed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--rate", "0"], "argument --rate: expected a number above 0, not '0'"),
        (["--ramp", "5"], "argument --ramp: expected FROM:TO"),
        (["--cancel-rate", "3"], "argument --cancel-rate: expected a share from 0 to 1, not '3'"),
        (["--rate", "1", "--concurrency", "1"], "not allowed with argument"),
        (["--requests", "1", "--duration", "1"], "not allowed with argument"),
        (["--ramp", "1:2", "--requests", "5", "--key", "k"], "--requests: a ramp ends by time"),
        (["--url", "http://192.0.2.1"], r"--key: expected an API key of http://192\.0\.2\.1"),
    ],
)
def test_it_rejects(arguments: list[str], complaint: str) -> None:
    with pytest.raises(CommandError, match=complaint):
        call_command("loadtest", *arguments)
