"""What one client of the test did and felt."""

from __future__ import annotations

import random
import time
from array import array
from dataclasses import dataclass, field

from config.loadtest.wire import Event

# A whole answer ends otherwise.
CUT_SHORT = ("cancelled", "server_shutdown")


@dataclass(frozen=True, slots=True)
class Behaviour:
    """How a client behaves: it leaves after so many deltas, or reads slowly. The default is well-behaved."""

    leave_after: int | None = None
    slow: bool = False

    @classmethod
    def drawn(cls, rng: random.Random, *, cancel_rate: float, slow_rate: float, max_tokens: int) -> Behaviour:
        """Draw one; always the same number of draws, so that one share does not change who the other falls on."""
        leaves, slow, share = rng.random() < cancel_rate, rng.random() < slow_rate, rng.random()
        leave_after = 1 + int(share * max(1, max_tokens // 2)) if leaves else None
        return cls(leave_after=leave_after, slow=slow)


@dataclass(slots=True, kw_only=True)
class Trace:
    """The times of one request, in seconds on one monotonic clock, from `started` on."""

    started: float = field(default_factory=time.perf_counter)
    behaviour: Behaviour = field(default_factory=Behaviour)
    first: float | None = None  # the first delta with text in it
    last: float = 0.0
    ended: float = 0.0
    gaps: array[float] = field(default_factory=lambda: array("d"))
    deltas: int = 0
    tokens: int | None = None  # as the server counted them
    terminal: bool = False
    left: bool = False
    error: str = ""

    def see(self, event: Event, now: float) -> None:
        """Note an event that has just come."""
        if event.usage is not None and event.usage.output_tokens:
            self.tokens = event.usage.output_tokens
        if event.error is not None:
            self.error = f"stream {event.error.type or 'error'}"
            self.terminal = True
        elif event.type == "message_stop":
            self.terminal = True
        elif event.delta is not None:
            if event.delta.text or event.delta.partial_json:
                self._delta(now)
            elif event.delta.stop_reason in CUT_SHORT:
                self.error = f"stop_reason {event.delta.stop_reason}"

    def _delta(self, now: float) -> None:
        if self.first is None:
            self.first = now
        else:
            self.gaps.append(now - self.last)
        self.last = now
        self.deltas += 1

    @property
    def done(self) -> bool:
        """Whether the whole answer was read."""
        return self.terminal and not self.error and not self.left

    @property
    def measures(self) -> bool:
        """Whether its times say something about the server: it came to its end, and its client was not slow."""
        return self.done and not self.behaviour.slow and self.first is not None

    @property
    def ttft(self) -> float:
        assert self.first is not None, "no text came"
        return self.first - self.started

    @property
    def tpot(self) -> float | None:
        """Time per output token after the first, by the server's count of them."""
        n = self.deltas if self.tokens is None else self.tokens
        return None if self.first is None or n < 2 else (self.last - self.first) / (n - 1)

    @property
    def total(self) -> float:
        return self.ended - self.started
