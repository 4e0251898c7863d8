"""What the doctor finds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One line: what was looked at, how it is, and what to do about it (nothing where it is ok)."""

    name: str
    status: Status
    text: str
    advice: str = ""


def ok(name: str, text: str) -> Finding:
    return Finding(name, "ok", text)


def warn(name: str, text: str, advice: str) -> Finding:
    return Finding(name, "warn", text, advice)


def fail(name: str, text: str, advice: str) -> Finding:
    return Finding(name, "fail", text, advice)
