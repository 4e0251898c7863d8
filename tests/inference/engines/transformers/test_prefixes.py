"""Keys of what blocks hold."""

from __future__ import annotations

import pytest

from inference.engines.transformers.prefixes import PrefixKeys


def keys_of(token_ids: list[int], salt: str = "org", block_size: int = 4) -> list[bytes]:
    keys = PrefixKeys(salt, block_size)
    return [keys.of_block(index, token_ids) for index in range(len(token_ids) // block_size)]


def test_it_works() -> None:
    one, other = keys_of([1, 2, 3, 4, 5, 6, 7, 8]), keys_of([1, 2, 3, 4, 5, 6, 7, 9])

    assert one[0] == other[0]
    assert one[1] != other[1]


def test_what_comes_before_counts() -> None:
    assert keys_of([1, 2, 3, 4, 5, 5, 5, 5])[1] != keys_of([1, 2, 3, 0, 5, 5, 5, 5])[1]
    assert keys_of([5, 5, 5, 5])[0] not in keys_of([1, 2, 3, 4, 5, 5, 5, 5])


def test_tenants_have_nothing_in_common() -> None:
    assert not {*keys_of([1, 2, 3, 4] * 2, "one")} & {*keys_of([1, 2, 3, 4] * 2, "another")}


def test_a_key_does_not_depend_on_when_it_is_asked_for() -> None:
    tokens = list(range(12))
    late = PrefixKeys("org", 4)

    assert late.of_block(2, tokens) == keys_of(tokens)[2]
    assert late.of_block(0, tokens) == keys_of(tokens)[0]


def test_a_block_that_is_not_full_has_none() -> None:
    with pytest.raises(AssertionError):
        PrefixKeys("org", 4).of_block(1, [1, 2, 3, 4, 5])
