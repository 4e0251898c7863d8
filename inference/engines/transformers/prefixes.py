"""Keys of what a block of the KV cache holds: alike only for the same tokens after the same tokens, of one tenant."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from hashlib import blake2b


class PrefixKeys:
    """The keys of one sequence's full blocks, in order, made as they are asked for."""

    def __init__(self, salt: str, block_size: int) -> None:
        self._block_size = block_size
        # A keyed start makes all that follow differ: no tenant can tell from the time whether another asked the same.
        self._keys = [blake2b(salt.encode(), digest_size=32).digest()]

    def of_block(self, index: int, token_ids: Sequence[int]) -> bytes:
        """Return the key of a block; `token_ids` are the sequence's, and only ever grow."""
        assert (index + 1) * self._block_size <= len(token_ids), "the block is not full"
        for start in range((len(self._keys) - 1) * self._block_size, (index + 1) * self._block_size, self._block_size):
            content = array("q", token_ids[start : start + self._block_size]).tobytes()
            self._keys.append(blake2b(self._keys[-1] + content, digest_size=32).digest())
        return self._keys[index + 1]
