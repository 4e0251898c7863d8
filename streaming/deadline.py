"""How long a client may take, and the timer that holds it to that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import daphne.server  # noqa: F401 - first of all, since it installs the reactor that we import below
from twisted.internet import reactor

IDLE_S = 75.0  # between two requests: longer than the 60 s of usual load balancers, so that these close first
LINGER_S = 10.0  # after a refusal, for the client to stop sending and to read it
LINGER_BYTES = 64_000_000  # that it may send meanwhile
STALLED_S = 60.0  # without progress, for a client to take an answer; longer than slow streams have for themselves
CLOSING_S = 15.0  # the same, before a close


class Deadline:
    """A call that is due in a while, unless something else comes first."""

    def __init__(self) -> None:
        self._due: Any = None

    def set(self, seconds: float, then: Callable[[], None]) -> None:
        """Have `then` called after some seconds, instead of whatever was due."""
        self.clear()
        self._due = reactor.callLater(seconds, then)

    def clear(self) -> None:
        """Have nothing called."""
        if self._due is not None and self._due.active():
            self._due.cancel()
        self._due = None
