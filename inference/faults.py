"""What may be logged of an error that met a client's text."""

from __future__ import annotations

import traceback


def fault_of(error: BaseException) -> str:
    """Say what was raised and where, without its message, which may quote the text."""
    return f"{type(error).__name__}\n{''.join(traceback.format_tb(error.__traceback__))}".rstrip()
