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


def publish(pool: BlockPool, owner: str, *keys: str) -> None:
    for index, key in enumerate(keys):
        pool.publish(owner, index, key.encode())


def share(pool: BlockPool, owner: str, *keys: str) -> list[bool]:
    return [pool.share(owner, index, key.encode()) for index, key in enumerate(keys)]


def test_a_published_block_is_shared() -> None:
    pool = BlockPool(8, block_size=4)
    pool.extend("a", 8)
    publish(pool, "a", "1", "12")

    assert share(pool, "b", "1", "12") == [True, True]
    assert pool.extend("b", 12)

    assert pool.table("b")[:2] == pool.table("a")
    assert pool.num_used == 3


def test_what_nobody_published_cannot_be_had() -> None:
    pool = BlockPool(8, block_size=4)
    pool.extend("a", 8)

    assert share(pool, "b", "1") == [False]
    assert not pool.has(b"1")


def test_published_blocks_outlive_their_owners() -> None:
    pool = BlockPool(4, block_size=4)
    pool.extend("a", 16)
    publish(pool, "a", "1", "12")
    kept = pool.table("a")[:2]
    pool.free("a")

    assert (pool.num_used, pool.num_free) == (0, 4)
    assert share(pool, "b", "1", "12") == [True, True]
    assert pool.table("b") == kept


def test_a_shared_block_stays_until_its_last_owner_goes() -> None:
    pool = BlockPool(2, block_size=4)
    pool.extend("a", 4)
    publish(pool, "a", "1")
    share(pool, "b", "1")
    pool.free("a")

    assert not pool.extend("c", 8)
    pool.free("b")
    assert pool.extend("c", 8)


def test_what_was_unused_for_longest_goes_first() -> None:
    pool = BlockPool(4, block_size=4)
    for name in "abcd":
        pool.extend(name, 4)
        publish(pool, name, name)
    for name in "bacd":
        pool.free(name)
    share(pool, "again", "b")
    pool.free("again")

    pool.extend("new", 8)

    assert [name for name in "abcd" if pool.has(name.encode())] == ["b", "d"]


def test_the_end_of_a_prefix_goes_before_its_beginning() -> None:
    pool = BlockPool(3, block_size=4)
    pool.extend("a", 12)
    publish(pool, "a", "1", "12", "123")
    pool.free("a")

    pool.extend("b", 4)

    assert share(pool, "c", "1", "12", "123")[:2] == [True, True]


def test_what_two_computed_is_kept_once() -> None:
    pool = BlockPool(8, block_size=4)
    for owner in "ab":
        pool.extend(owner, 8)
        publish(pool, owner, "1")

    assert pool.table("a")[0] == pool.table("b")[0]
    assert pool.num_used == 3
    pool.check_integrity()


def test_a_block_of_ones_own_gives_way_to_a_shared_one() -> None:
    pool = BlockPool(8, block_size=4)
    pool.extend("a", 4)
    publish(pool, "a", "1")
    pool.extend("b", 8)

    assert pool.share("b", 0, b"1")

    assert pool.table("b")[0] == pool.table("a")[0]
    assert pool.num_used == 2


def test_room_is_made_for_more_than_is_needed_now() -> None:
    pool = BlockPool(64, block_size=4)
    for owner in ("a", "b"):
        pool.extend(owner, 128)
        publish(pool, owner, *(f"{owner}{index}" for index in range(32)))
    pool.free("a")

    pool.extend("c", 4)
    pool.extend("c", 8)

    assert abs(pool.table("c")[0] - pool.table("c")[1]) == 1, "neighbours, where one by one would lie apart"


MOVES = st.one_of(
    st.tuples(st.just("extend"), st.sampled_from("abcdef"), st.integers(1, 40)),
    st.tuples(st.just("free"), st.sampled_from("abcdef"), st.just(0)),
    st.tuples(st.just("publish"), st.sampled_from("abcdef"), st.integers(1, 10)),
    st.tuples(st.just("share"), st.sampled_from("abcdef"), st.integers(1, 10)),
)


@given(st.lists(MOVES, max_size=80))
def test_shared_blocks_keep_their_integrity(moves: list[tuple[str, str, int]]) -> None:
    """Owners of like name, `a` and `b`, `c` and `d`, have the same content."""
    pool = BlockPool(16, block_size=4)
    here: set[str] = set()
    for kind, owner, number in moves:
        keys = [f"{ord(owner) // 2}:{index}" for index in range(number)]
        if kind == "free":
            pool.free(owner)
            here.discard(owner)
        elif kind == "extend" and pool.extend(owner, number):
            here.add(owner)
        elif kind == "publish" and owner in here:
            publish(pool, owner, *keys[: len(pool.table(owner))])
        elif kind == "share" and owner not in here and share(pool, owner, *keys[:1])[0]:
            here.add(owner)
            for index, key in enumerate(keys[1:], start=1):
                if not pool.share(owner, index, key.encode()):
                    break
        pool.check_integrity()


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 40)), max_size=60))
def test_it_keeps_its_integrity(moves: list[tuple[str, int]]) -> None:
    pool = BlockPool(16, block_size=4)
    for owner, num_tokens in moves:
        if num_tokens == 0:
            pool.free(owner)
        elif pool.extend(owner, num_tokens):
            assert len(pool.table(owner)) >= pool.blocks_for(num_tokens)
        pool.check_integrity()
