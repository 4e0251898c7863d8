"""The only way out: pieces of text pass here, in order, before they become events."""

from __future__ import annotations

from inference.text import Piece


class UnknownPolicy(ValueError):
    """Raised when a request names a policy that this worker does not know: unjudged text must not leave."""


class SafetyGate:
    """Hold text back until it is judged. The `off` policy, the only one so far, judges everything safe at once."""

    def __init__(self, policy: str) -> None:
        if policy != "off":
            raise UnknownPolicy(f"This worker knows no safety policy {policy!r}.")

    def push(self, piece: Piece) -> list[Piece]:
        """Take a piece; return what may leave now."""
        return [piece]

    def flush(self) -> list[Piece]:
        """Return what is still held when the text has ended."""
        return []
