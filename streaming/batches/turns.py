"""Whose turn it is: organisations take turns, and so do the batches of each, but for those that have to wait."""

from __future__ import annotations

import time
from collections.abc import Iterable

from streaming.batches.work import BatchRun


class Turns:
    """The turns that batches had, and until when they wait."""

    def __init__(self) -> None:
        self._held_keys: dict[str, float] = {}
        self._organizations: dict[str, int] = {}  # when each last had its turn
        self._count = 0

    def next(self, batches: Iterable[BatchRun]) -> BatchRun | None:
        """Give a turn to the batch of the organisation that has waited for longest."""
        now = time.monotonic()
        ready = [
            batch
            for batch in batches
            if not (batch.stop or batch.exhausted) and now >= max(batch.held_until, self._held_keys.get(batch.key, 0.0))
        ]
        chosen = min(ready, key=lambda b: (self._organizations.get(b.organization, 0), b.served), default=None)
        if chosen is not None:
            self._count += 1
            self._organizations[chosen.organization] = chosen.served = self._count
        return chosen

    def hold(self, batch: BatchRun, seconds: float, *, whole_key: bool) -> None:
        """Let a batch wait, or all batches of its key."""
        until = time.monotonic() + seconds
        if whole_key:
            self._held_keys[batch.key] = until
        else:
            batch.held_until = until
