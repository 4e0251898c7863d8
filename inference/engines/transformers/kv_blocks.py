"""Which blocks of the KV cache belong to whom."""

from __future__ import annotations

from collections import Counter

PADDING = 0  # a block that nobody owns and nothing is written to: what padded rows read


class BlockPool:
    """Hands out blocks of `block_size` tokens. Each owner has a table: its blocks, in the order of its tokens."""

    def __init__(self, num_blocks: int, block_size: int) -> None:
        self.num_blocks = num_blocks
        self.block_size = block_size
        self.num_free = num_blocks
        self._taken = bytearray(num_blocks + 1)
        self._taken[PADDING] = 1
        self._tables: dict[str, list[int]] = {}

    @property
    def num_tokens(self) -> int:
        return self.num_blocks * self.block_size

    @property
    def num_used(self) -> int:
        return self.num_blocks - self.num_free

    def blocks_for(self, num_tokens: int) -> int:
        return -(-num_tokens // self.block_size)

    def table(self, owner: str) -> list[int]:
        return self._tables[owner]

    def extend(self, owner: str, num_tokens: int) -> bool:
        """Grow the owner's table to hold `num_tokens`; False means there is no room and nothing changed."""
        table = self._tables.get(owner, [])
        missing = self.blocks_for(num_tokens) - len(table)
        if missing > self.num_free:
            return False
        self._tables[owner] = table
        for left in range(missing, 0, -1):
            table.append(self._take(after=table[-1] if table else None, more=left))
        return True

    def free(self, owner: str) -> None:
        for block in self._tables.pop(owner, ()):
            self._taken[block] = 0
            self.num_free += 1

    def check_integrity(self) -> None:
        """Assert that each block is either free or in exactly one table."""
        owners = Counter(block for table in self._tables.values() for block in table)
        taken = {block for block, mark in enumerate(self._taken) if mark} - {PADDING}
        assert all(count == 1 for count in owners.values()), "a block is in two tables"
        assert taken == owners.keys(), "a block is taken but in no table, or the other way round"
        assert self.num_used == len(taken), "the count of free blocks is wrong"

    def _take(self, *, after: int | None, more: int) -> int:
        # Neighbouring blocks can be read in place; scattered ones have to be gathered first, in every layer.
        block = self._next_or_none(after)
        if block is None:
            block = self._opening(more)
        self._taken[block] = 1
        self.num_free -= 1
        return block

    def _next_or_none(self, block: int | None) -> int | None:
        if block is None or block >= self.num_blocks or self._taken[block + 1]:
            return None
        return block + 1

    def _opening(self, num_blocks: int) -> int:
        """Return where to start: the middle of the longest free run, so that whoever ends before it can grow too."""
        start, length = self._longest_free_run()
        return start + max(0, min(length // 2, length - num_blocks))

    def _longest_free_run(self) -> tuple[int, int]:
        best, start = (0, 0), 0
        for run in self._taken.split(b"\1"):
            if len(run) > best[1]:
                best = (start, len(run))
            start += len(run) + 1
        return best
