"""How much a worker may claim: no more than it can soon run, so that the rest is there for others."""

from __future__ import annotations

from dataclasses import dataclass

from inference.engines.base import EngineStats

UNLIMITED = 1 << 50
FIXED_BYTES = 400  # of a request, whatever its prompt
WEIGHT = 0.1  # of the newest request


@dataclass(frozen=True, slots=True)
class Room:
    """Room for so many requests, that have so many bytes in the queue; `any_size` is for an engine that has none."""

    requests: int
    payload_bytes: int
    any_size: bool


class Sizes:
    """Learns from the requests that come how many bytes in the queue a token of a prompt has."""

    def __init__(self) -> None:
        self._bytes_per_token = 10.0  # its id, and some letters of text

    def note(self, num_bytes: int, num_tokens: int) -> None:
        """Learn from a request of so many bytes."""
        if num_tokens:
            self._bytes_per_token += WEIGHT * (max(0, num_bytes - FIXED_BYTES) / num_tokens - self._bytes_per_token)

    def room(self, requests: int, stats: EngineStats) -> Room:
        """Say what an engine has room for that could run so many more requests."""
        is_idle = stats.running + stats.waiting == 0
        if not stats.kv_tokens_total:
            return Room(requests, UNLIMITED, is_idle)
        free = stats.kv_tokens_total - stats.kv_tokens_used - stats.kv_tokens_wanted
        return Room(requests, max(0, int(free * self._bytes_per_token)), is_idle)
