"""Ids: sortable by time, unguessable, and with a prefix that says what they name."""

from __future__ import annotations

import secrets
import time

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZabcdefghjkmnpqrstvwxyz"  # in ASCII order, no look-alikes


def _encode(number: int, width: int) -> str:
    digits = ""
    for _ in range(width):
        number, digit = divmod(number, len(_ALPHABET))
        digits = _ALPHABET[digit] + digits
    return digits


def new_id(prefix: str) -> str:
    """Return `prefix_` and 24 characters: 9 of time in ms, 15 (over 80 bits) of chance."""
    now = _encode(time.time_ns() // 1_000_000, 9)
    return f"{prefix}_{now}{_encode(secrets.randbits(86), 15)}"
