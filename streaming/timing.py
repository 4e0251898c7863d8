"""What a client feels, measured where it is felt: on the gateway's monotonic clock."""

from __future__ import annotations

import time
from dataclasses import dataclass, field


@dataclass(slots=True)
class Stopwatch:
    """Times of one request, from the moment it was fully received. All results in ms."""

    started: float = field(default_factory=time.monotonic)
    stages: dict[str, float] = field(default_factory=dict)
    proxy_ms: float | None = None  # what a proxy had the request for before, where it says so
    bytes_sent: int = 0
    pings: int = 0
    write_s: float = 0.0  # for the socket to take what was written
    _lap: float = 0.0
    _first: float | None = None
    _last: float = 0.0
    _gaps: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._lap = self.started

    def stage(self, name: str) -> None:
        """Note that a stage has ended just now."""
        now = time.monotonic()
        self.stages[f"{name}_ms"] = round((now - self._lap) * 1000, 3)
        self._lap = now

    def wrote(self, size: int, deltas: int) -> None:
        """Note bytes that were written, and how many content deltas were among them."""
        self.bytes_sent += size
        if deltas:
            now = time.monotonic()
            if self._first is None:
                self._first = now
            else:
                self._gaps.append(now - self._last)
            self._last = now

    @property
    def gaps(self) -> list[float]:
        """Seconds between each two writes of content."""
        return self._gaps

    @property
    def ttft_ms(self) -> float | None:
        return None if self._first is None else (self._first - self.started) * 1000

    @property
    def stream_ms(self) -> float | None:
        return None if self._first is None else (self._last - self._first) * 1000

    @property
    def tbt_p99_ms(self) -> float | None:
        if not self._gaps:
            return None
        gaps = sorted(self._gaps)
        return gaps[min(len(gaps) - 1, int(0.99 * len(gaps)))] * 1000

    @property
    def total_ms(self) -> float:
        return (time.monotonic() - self.started) * 1000
