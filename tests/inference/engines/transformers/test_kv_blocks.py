from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from inference.engines.transformers.kv_blocks import PADDING, BlockPool


def test_it_works() -> None:
    pool = BlockPool(8, block_size=4)

    assert pool.extend("a", 5)
    assert pool.extend("a", 8)  # still two blocks
    assert pool.extend("b", 1)

    assert len(pool.table("a")) == 2
    assert pool.num_used == 3
    assert not set(pool.table("a")) & {*pool.table("b"), PADDING}


def test_it_changes_nothing_when_there_is_no_room() -> None:
    pool = BlockPool(4, block_size=4)
    pool.extend("a", 8)
    table = list(pool.table("a"))

    assert not pool.extend("a", 17)
    assert not pool.extend("b", 9)

    assert pool.table("a") == table
    pool.check_integrity()


def test_it_hands_out_every_block() -> None:
    pool = BlockPool(5, block_size=4)

    assert pool.extend("a", 20)

    assert sorted(pool.table("a")) == [1, 2, 3, 4, 5]


def test_it_takes_back_what_is_freed() -> None:
    pool = BlockPool(4, block_size=4)
    pool.extend("a", 16)
    pool.free("a")
    pool.free("nobody")

    assert pool.num_free == 4
    assert pool.extend("b", 16)


def test_it_keeps_growing_sequences_in_neighbouring_blocks() -> None:
    pool = BlockPool(64, block_size=4)
    for num_tokens in range(1, 65):
        for owner in "abc":
            assert pool.extend(owner, num_tokens)

    for owner in "abc":
        table = pool.table(owner)
        assert table == list(range(table[0], table[0] + 16))


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 40)), max_size=60))
def test_it_keeps_its_integrity(moves: list[tuple[str, int]]) -> None:
    pool = BlockPool(16, block_size=4)
    for owner, num_tokens in moves:
        if num_tokens == 0:
            pool.free(owner)
        elif pool.extend(owner, num_tokens):
            assert len(pool.table(owner)) >= pool.blocks_for(num_tokens)
        pool.check_integrity()
