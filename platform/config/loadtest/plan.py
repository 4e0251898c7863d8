"""What a load test is to do, and reading that from the words of a command line."""

from __future__ import annotations

import math
from argparse import ArgumentTypeError
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from config.loadtest.arrivals import Load, Ramp

PROMPT = "Write a short story about a lighthouse keeper."


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One load test. It ends after `requests` or, where that is None, takes none after `duration_s`."""

    url: str
    key: str
    load: Load
    requests: int | None = None
    duration_s: float | None = None
    model: str = "default"
    prompt: str = PROMPT
    unique: bool = False
    max_tokens: int = 64
    cancel_rate: float = 0.0
    slow_rate: float = 0.0
    timeout_s: float = 120.0
    seed: int = 0

    def prompt_of(self, number: int) -> str:
        """Return the prompt of a request; numbered, no two are alike."""
        return f"{self.prompt} #{self.seed}-{number}" if self.unique else self.prompt


def whole_number(least: int) -> Callable[[str], int]:
    """Return a reader of whole numbers."""

    def read(text: str) -> int:
        if not text.isascii() or not text.isdecimal() or int(text) < least:
            raise ArgumentTypeError(f"expected a whole number from {least} on, not {text!r}")
        return int(text)

    return read


def positive(text: str) -> float:
    """Read a number above 0."""
    value = _number(text)
    if not value > 0:
        raise ArgumentTypeError(f"expected a number above 0, not {text!r}")
    return value


def share(text: str) -> float:
    """Read a share of the requests."""
    value = _number(text)
    if not 0 <= value <= 1:
        raise ArgumentTypeError(f"expected a share from 0 to 1, not {text!r}")
    return value


def ramp(text: str) -> Ramp:
    """Read `FROM:TO` in requests a second."""
    first, _, last = text.partition(":")
    load = Ramp(_number(first), _number(last))
    if not (load.first >= 0 and load.last >= 0 and load.first + load.last > 0):
        raise ArgumentTypeError(f"expected FROM:TO in requests a second, like 1:20, not {text!r}")
    return load


def url(text: str) -> str:
    """Read the address of a server."""
    try:
        parts = urlsplit(text)
        fine = parts.scheme in ("http", "https") and parts.hostname and (parts.port or 1)
    except ValueError:  # a port that is none
        fine = False
    if not fine or parts.query or parts.fragment or not text.isprintable() or " " in text:
        raise ArgumentTypeError(f"expected http://HOST:PORT or https://HOST:PORT, not {text!r}")
    return text


def words(text: str) -> str:
    """Read a text that is not empty."""
    if not text.strip():
        raise ArgumentTypeError("expected some text, not ''")
    return text


def header_value(text: str) -> str:
    """Read what can stand in a header."""
    if not text.isascii() or not text.isprintable() or not text.strip():
        raise ArgumentTypeError("expected an API key: printable ASCII")
    return text.strip()


def is_local(address: str) -> bool:
    """Say whether a URL names this machine."""
    host = urlsplit(address).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")


def _number(text: str) -> float:
    """Return a finite number, or NaN, which no range takes in."""
    try:
        value = float(text)
    except ValueError:
        return math.nan
    return value if math.isfinite(value) else math.nan
