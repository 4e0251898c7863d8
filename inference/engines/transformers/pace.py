"""How much prefill a step may carry."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence

TARGET_S = 0.08  # of a step with prefill in it: with the way to the client the gap between two tokens is under 100 ms
MOST_S = 1.0  # however late somebody is
TTFT_S = 0.5  # after which a short prompt is late
ALONE = 3.0  # a long prompt may take so many times what it would take alone before it is late
WEIGHT = 0.4  # of the newest measurement
UNHEARD_OF = 2.0  # a prefill so many times larger than any before is believed at once: the forecast was a guess

# Of the same size as the cost of a step by itself, or so: all three learn at the same speed.
PREFILL_UNIT = 32
DECODE_UNIT = 4


class Pace:
    """Learns the cost of a step: so much by itself, for each token of prefill, and for each sequence that decodes.

    While somebody is late by some factor, steps may be longer than the target by that factor, so that both wait alike.
    """

    def __init__(self, *, least: int, most_s: float = math.inf) -> None:
        """Allow `least` tokens however slow they are, any number until something is known, then no more than `most_s`.

        That is for a step beside which nobody waits for a token: somebody waits for a sign of life of the worker.
        """
        self._least, self._most_s = least, most_s
        self._costs = [0.0, 0.0, 0.0]
        self._largest = 0  # prefill that was measured

    @property
    def prefill_token_s(self) -> float:
        """What a token of prefill takes, 0 until that is known."""
        return self._costs[1] / PREFILL_UNIT

    def seconds(self, num_prefill: int, num_decodes: int) -> float:
        """Tell how long a step will take."""
        return sum(cost * size for cost, size in zip(self._costs, _sizes(num_prefill, num_decodes), strict=True))

    def lateness(self, waited_s: float, num_tokens: int) -> float:
        """Return by what factor a prompt of so many tokens has waited longer than it should have to."""
        return waited_s / (TTFT_S + ALONE * self.prefill_token_s * num_tokens)

    def allowance(self, num_decodes: int, lateness: float = 0.0) -> int:
        """Return the tokens of prefill that a step may carry beside so many sequences that decode."""
        if self.prefill_token_s == 0:
            return sys.maxsize
        limit_s = self._most_s
        if num_decodes:
            limit_s = min(TARGET_S * max(1.0, lateness), MOST_S, limit_s)
        fitting = (limit_s - self.seconds(0, num_decodes)) / self.prefill_token_s
        return max(self._least, int(min(fitting, sys.maxsize)))

    def note(self, chunk_sizes: Sequence[int], seconds: float) -> None:
        """Learn how long a step with such chunks took; those of one token decode."""
        num_decodes = sum(size == 1 for size in chunk_sizes)
        num_prefill = sum(chunk_sizes) - num_decodes
        sizes = _sizes(num_prefill, num_decodes)
        surprise = seconds - self.seconds(num_prefill, num_decodes)
        weight = 1.0 if not any(self._costs) or num_prefill > UNHEARD_OF * self._largest else WEIGHT
        self._largest = max(self._largest, num_prefill)
        # What is wrong with the forecast is laid to each cost by its part in the step (normalised least mean squares).
        share = weight * surprise / sum(size * size for size in sizes)
        self._costs = [max(0.0, cost + share * size) for cost, size in zip(self._costs, sizes, strict=True)]


def _sizes(num_prefill: int, num_decodes: int) -> tuple[float, float, float]:
    return 1.0, num_prefill / PREFILL_UNIT, num_decodes / DECODE_UNIT
