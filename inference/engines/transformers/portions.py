"""Cutting a step into parts that the device's memory takes."""

from __future__ import annotations

import sys

from inference.engines.transformers.sequence import Chunk

LEAST = 16  # tokens of one sequence: cutting them further would save no memory worth the name
PROVEN = 200  # parts that fitted, after which a larger one is tried


class Portions:
    """Learns how many tokens can be computed at once: fewer than did not fit, and more again after some time."""

    def __init__(self) -> None:
        self._most = sys.maxsize
        self._num_fitted = 0

    def cut(self, part: list[Chunk]) -> list[list[Chunk]]:
        """Return chunks in parts that should fit, in their order."""
        halves = halved(part) if _num_tokens(part) > self._most else []
        return [smaller for half in halves for smaller in self.cut(half)] or [part]

    def fitted(self) -> None:
        """Note that there was memory for a part."""
        self._num_fitted += 1
        if self._num_fitted >= PROVEN:
            self._most, self._num_fitted = min(self._most * 2, sys.maxsize), 0

    def did_not_fit(self, part: list[Chunk]) -> None:
        """Note that there was not."""
        self._most, self._num_fitted = max(LEAST, _num_tokens(part) // 2), 0


def halved(part: list[Chunk]) -> list[list[Chunk]]:
    """Return the halves of a part, or nothing when it is as small as can be."""
    if len(part) > 1:
        middle = len(part) // 2
        return [part[:middle], part[middle:]]
    (chunk,) = part
    if chunk.num_tokens <= LEAST:
        return []
    middle = chunk.start + chunk.num_tokens // 2
    return [
        [Chunk(chunk.sequence, chunk.start, middle, chunk.table)],
        [Chunk(chunk.sequence, middle, chunk.end, chunk.table)],
    ]


def _num_tokens(part: list[Chunk]) -> int:
    return sum(chunk.num_tokens for chunk in part)
