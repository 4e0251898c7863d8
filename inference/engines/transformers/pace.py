"""How much prefill a step may carry beside sequences that decode."""

from __future__ import annotations

import sys
from collections.abc import Sequence

TARGET_S = 0.06  # what prefill may add to a decode step; with it the gap between two tokens stays under 100 ms
WEIGHT = 0.3  # of the newest measurement


class Pace:
    """Learns from the times of steps. The fixed cost of a step counts too, spread over the tokens that came with it."""

    def __init__(self, *, least: int) -> None:
        """Allow `least` tokens however slow they are, and any number until something is known."""
        self._least = least
        self._decode_s = 0.0
        self._prefill_token_s = 0.0

    @property
    def allowance(self) -> int:
        """Tokens of prefill for which the target is enough, or which double a slow step."""
        if self._prefill_token_s == 0:
            return sys.maxsize
        # Where a decode step alone takes longer than the target, nobody gains by starving those that wait.
        return max(self._least, int(max(TARGET_S, self._decode_s) / self._prefill_token_s))

    def note(self, chunk_sizes: Sequence[int], seconds: float) -> None:
        """Learn how long a step with such chunks took; those of one token decode."""
        num_prefill = sum(size for size in chunk_sizes if size > 1)
        if num_prefill == 0:
            self._decode_s = _blend(self._decode_s, seconds)
            return
        decode_s = self._decode_s if 1 in chunk_sizes else 0.0
        self._prefill_token_s = _blend(self._prefill_token_s, max(seconds - decode_s, 0.0) / num_prefill)


def _blend(old: float, new: float) -> float:
    return new if old == 0 else old + WEIGHT * (new - old)
