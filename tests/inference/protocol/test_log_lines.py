from __future__ import annotations

import json
import logging
from collections.abc import Callable

import jinja2
import msgspec
import pytest
from django.core.exceptions import ValidationError
from django.db import DataError

from inference.protocol.log_lines import FORMAT, WITHHELD, LogFormatter

SAID = "what a customer said"


class Kind(msgspec.Struct, tag="known"):
    """Something with a tag."""


def line_of(raising: Callable[[], object], message: str = "it failed", *args: object) -> str:
    """The log's line about an error."""
    try:
        raising()
    except Exception as error:
        record = logging.LogRecord("sluice", logging.ERROR, __file__, 1, message, args or None, None)
        record.exc_info = (type(error), error, error.__traceback__)
        return LogFormatter(FORMAT).format(record)
    raise AssertionError("nothing was raised")


def with_a_prompt() -> None:
    prompt = SAID
    raise RuntimeError(f"it has {len(prompt)} characters")


def grouped() -> None:
    raise ExceptionGroup("several", [ValueError(SAID), KeyError(SAID)])


def chained() -> None:
    try:
        raise ValueError(SAID)
    except ValueError as error:
        raise RuntimeError("no good") from error


def in_the_course_of_another() -> None:
    try:
        raise ValueError(SAID)
    except ValueError:
        raise RuntimeError("no good")  # noqa: B904


def raised(error: Exception) -> Callable[[], object]:
    def run() -> None:
        raise error

    return run


def test_it_works() -> None:
    line = line_of(with_a_prompt)
    assert "ERROR sluice: it failed\nTraceback (most recent call last):\n" in line
    assert "in with_a_prompt" in line
    assert line.endswith("RuntimeError: it has 20 characters")


QUOTING: dict[str, Callable[[], object]] = {
    "value": lambda: int(SAID),
    "key": lambda: {"known": 1}[SAID],
    "unicode": lambda: f"{SAID}é".encode("ascii"),
    "msgspec": lambda: msgspec.json.decode(json.dumps({"type": SAID}), type=Kind),
    "jinja": lambda: jinja2.Environment().from_string("{% " + SAID),
    "database": raised(DataError(f"value too long: {SAID}")),
    "form": raised(ValidationError(SAID)),
    "any": raised(Exception(SAID)),
    "group": grouped,
    "cause": chained,
    "context": in_the_course_of_another,
    "local": with_a_prompt,
}


@pytest.mark.parametrize("name", QUOTING)
def test_nobody_is_quoted(name: str) -> None:
    line = line_of(QUOTING[name])
    assert "Traceback (most recent call last):" in line
    assert SAID not in line
    assert WITHHELD in line or "20 characters" in line


@pytest.mark.parametrize("chained_by", [chained, in_the_course_of_another])
def test_what_came_first_is_told_first(chained_by: Callable[[], object]) -> None:
    line = line_of(chained_by)
    assert line.index(f"ValueError: {WITHHELD}") < line.index("RuntimeError: no good")


@pytest.mark.parametrize("form", ["the task failed: %s", "the task failed: %r", "<Task exception=%r>"])
def test_nor_by_the_line_itself(form: str) -> None:
    error = ValueError(SAID)
    assert SAID not in line_of(raised(error), form, error)
    assert SAID not in line_of(raised(error), form % error)
    record = logging.LogRecord("sluice", logging.WARNING, __file__, 1, form, (error,), None)
    assert SAID not in LogFormatter(FORMAT).format(record)


def test_celerys_line_about_a_failed_task() -> None:
    error = ValueError(SAID)
    told = {"name": "store", "exc": repr(error)}
    assert SAID not in line_of(raised(error), "Task %(name)s raised: %(exc)s", told)


def test_an_error_without_a_message() -> None:
    assert line_of(raised(RuntimeError())).endswith("\nRuntimeError")
