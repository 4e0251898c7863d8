"""What a form of the API is to the rest: how a message's events look in it."""

from __future__ import annotations

from typing import Any, Protocol


class Surface(Protocol):
    """One response's form; it may keep state from one chunk of events to the next."""

    ping: bytes

    def translate(self, frames: bytes) -> bytes:
        """Return what to send for some events."""

    def whole(self, frames: bytes) -> dict[str, Any]:
        """Return a finished message as JSON, from all its events; raise the error that it ended with."""
