"""Which blocks of the KV cache belong to whom, and which are kept for those who come with the same tokens."""

from __future__ import annotations

from collections import Counter

PADDING = 0  # a block that nobody owns and nothing is written to: what padded rows read
CLEARED = 1 / 32  # of the pool, when room is needed: what is given up together lies together


class BlockPool:
    """Hands out blocks of `block_size` tokens. Each owner has a table: its blocks, in the order of its tokens.

    A block whose content is complete can be published under the key of that content. Then all who need the same share
    it. When its last owner goes it stays as it is, unused, until the room is needed; the longest unused goes first.
    """

    def __init__(self, num_blocks: int, block_size: int) -> None:
        self.num_blocks = num_blocks
        self.block_size = block_size
        self._blank = num_blocks  # how many hold nothing
        self._filled = bytearray(num_blocks + 1)  # 1 where a block does
        self._filled[PADDING] = 1
        self._num_owners = [0] * (num_blocks + 1)
        self._tables: dict[str, list[int]] = {}
        self._published: dict[bytes, int] = {}
        self._keys: dict[int, bytes] = {}  # of the published blocks
        self._unused: dict[int, None] = {}  # published, without an owner; the longest unused first

    @property
    def num_tokens(self) -> int:
        return self.num_blocks * self.block_size

    @property
    def num_free(self) -> int:
        """How many blocks can be had: those that hold nothing, and those that are merely kept."""
        return self._blank + len(self._unused)

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
        self._clear(missing)
        for left in range(missing, 0, -1):
            table.append(self._take(after=table[-1] if table else None, more=left))
        return True

    def has(self, key: bytes) -> bool:
        """Say whether there is a published block with that content."""
        return key in self._published

    def share(self, owner: str, index: int, key: bytes) -> bool:
        """Have the published block with that content at a place of the owner's table; False where there is none."""
        block = self._published.get(key)
        if block is None:
            return False
        table = self._tables.setdefault(owner, [])
        assert index <= len(table), "a table has no gaps"
        self._hold(block)
        if index == len(table):
            table.append(block)
        else:
            table[index], replaced = block, table[index]
            self._let_go(replaced)
        return True

    def publish(self, owner: str, index: int, key: bytes) -> None:
        """Say that a block of the owner's is complete. One that is there with the same content takes its place."""
        block = self._tables[owner][index]
        if not self.share(owner, index, key):
            assert block not in self._keys, "a published block does not change"
            self._published[key] = block
            self._keys[block] = key

    def free(self, owner: str) -> None:
        # From the end, so that no block goes before those that follow it: without it they could not be found.
        for block in reversed(self._tables.pop(owner, ())):
            self._let_go(block)

    def check_integrity(self) -> None:
        """Assert that each block is owned, kept or blank, and that only published ones have several owners."""
        owners = Counter(block for table in self._tables.values() for block in table)
        filled = {block for block, mark in enumerate(self._filled) if mark} - {PADDING}
        assert all(count == self._num_owners[block] for block, count in owners.items()), "owners are miscounted"
        assert sum(self._num_owners) == owners.total(), "owners are counted of a block that has none"
        assert all(count == 1 or block in self._keys for block, count in owners.items()), "a block is in two tables"
        assert filled == owners.keys() | self._unused.keys(), "a block is filled for nobody, or the other way round"
        assert not owners.keys() & self._unused.keys(), "a block is used and unused"
        assert {block: key for key, block in self._published.items()} == self._keys, "a key leads to the wrong block"
        assert self._unused.keys() <= self._keys.keys() <= filled, "a block is kept that nobody can find"
        assert self._blank == self.num_blocks - len(filled), "the count of blank blocks is wrong"

    def _hold(self, block: int) -> None:
        self._num_owners[block] += 1
        self._unused.pop(block, None)

    def _let_go(self, block: int) -> None:
        self._num_owners[block] -= 1
        if self._num_owners[block]:
            return
        if block in self._keys:
            self._unused[block] = None
        else:
            self._erase(block)

    def _clear(self, num_blocks: int) -> None:
        """Give up what has been unused for longest, unless so many blocks are blank."""
        if self._blank >= num_blocks:
            return
        wanted = max(num_blocks, int(CLEARED * self.num_blocks))
        while self._blank < wanted and self._unused:
            block = next(iter(self._unused))
            del self._unused[block]
            del self._published[self._keys.pop(block)]
            self._erase(block)

    def _erase(self, block: int) -> None:
        self._filled[block] = 0
        self._blank += 1

    def _take(self, *, after: int | None, more: int) -> int:
        # Neighbouring blocks can be read in place; scattered ones have to be gathered first, in every layer.
        block = self._next_or_none(after)
        if block is None:
            block = self._opening(more)
        self._filled[block] = 1
        self._blank -= 1
        self._hold(block)
        return block

    def _next_or_none(self, block: int | None) -> int | None:
        if block is None or block >= self.num_blocks or self._filled[block + 1]:
            return None
        return block + 1

    def _opening(self, num_blocks: int) -> int:
        """Return where to start: the middle of the longest blank run, so that whoever ends before it can grow too."""
        start, length = self._longest_blank_run()
        return start + max(0, min(length // 2, length - num_blocks))

    def _longest_blank_run(self) -> tuple[int, int]:
        best, start = (0, 0), 0
        for run in self._filled.split(b"\1"):
            if len(run) > best[1]:
                best = (start, len(run))
            start += len(run) + 1
        return best
