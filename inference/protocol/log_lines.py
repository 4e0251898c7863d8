"""Log lines that quote no customer: of an error whose message may hold what a request said, only the kind is told."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator

FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
WITHHELD = "(its message is withheld: it may quote a request)"

# Their messages are made of the values that they are about. By name, since some are of packages not imported here.
_QUOTING = frozenset(
    ("ValueError", "LookupError", "DataError", "IntegrityError", "ValidationError", "MsgspecError", "TemplateError")
)
_CAUSE = "\nThe above exception was the direct cause of the following exception:\n\n"
_CONTEXT = "\nDuring handling of the above exception, another exception occurred:\n\n"


class LogFormatter(logging.Formatter):
    """Formats as usual, but without the messages of errors that may quote."""

    def formatException(self, exc_info: object) -> str:
        error = exc_info[1] if isinstance(exc_info, tuple) else None
        return "" if error is None else "".join(_told(error, set())).rstrip("\n")

    def formatMessage(self, record: logging.LogRecord) -> str:
        for error in _errors_of(record):
            if may_quote(error):  # lines that tell of an error often begin with it
                record.message = _without(record.message, error)
        return super().formatMessage(record)


def may_quote(error: BaseException) -> bool:
    """Say whether an error's message may be made of what somebody sent."""
    return type(error) is Exception or any(kind.__name__ in _QUOTING for kind in type(error).__mro__)


def _without(text: str, error: BaseException) -> str:
    text = text.replace(repr(error), type(error).__name__)
    return text.replace(str(error), WITHHELD) if len(str(error)) > 3 else text


def _errors_of(record: logging.LogRecord) -> Iterator[BaseException]:
    args = record.args.values() if isinstance(record.args, dict) else record.args or ()
    yield from (value for value in args if isinstance(value, BaseException))
    if record.exc_info and record.exc_info[1]:
        yield from _family(record.exc_info[1], set())


def _family(error: BaseException, seen: set[int]) -> Iterator[BaseException]:
    """Yield an error and those that it came from."""
    if id(error) not in seen:
        seen.add(id(error))
        yield error
        members = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
        for other in (error.__cause__, error.__context__, *members):
            if other is not None:
                yield from _family(other, seen)


def _told(error: BaseException, seen: set[int]) -> Iterator[str]:
    seen.add(id(error))
    before, words = error.__cause__, _CAUSE
    if before is None and not error.__suppress_context__:
        before, words = error.__context__, _CONTEXT
    if before is not None and id(before) not in seen:
        yield from _told(before, seen)
        yield words
    if error.__traceback__:
        yield "Traceback (most recent call last):\n"
        yield from traceback.format_tb(error.__traceback__)
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    message = WITHHELD if may_quote(error) else str(error)
    yield f"{name}: {message}\n" if message else f"{name}\n"
    for member in error.exceptions if isinstance(error, BaseExceptionGroup) else ():
        yield "".join(f"  | {line}\n" for line in "".join(_told(member, seen)).splitlines())
