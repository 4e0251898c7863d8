"""The text of a key."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accounts.plain import START, digest, mint, plain_key, prefix_of


def test_it_works() -> None:
    prefix, plain = mint()
    assert prefix_of(plain) == prefix
    assert plain.startswith(f"{prefix}-")
    assert plain not in digest(plain)


@given(st.integers(len(START), len(mint()[1]) - 1), st.sampled_from("aZ5-_ é"))
def test_what_we_never_issued_is_told_apart_without_a_database(position: int, letter: str) -> None:
    _, plain = mint()
    other = plain[:position] + letter + plain[position + 1 :]
    assert (prefix_of(other) is None) == (other != plain)


@pytest.mark.parametrize(
    "plain", ["", "nonsense", "sk-sluice-wrong", "sk-sluice-12345678-short", "sk-sluice-abcdefgh-" + "x" * 43, "é" * 62]
)
def test_it_rejects_what_is_no_key(plain: str) -> None:
    assert prefix_of(plain) is None


@pytest.mark.parametrize(
    ("api_key", "authorization", "plain"),
    [
        ("a", "", "a"),
        ("", "Bearer a", "a"),
        ("", "bearer  a ", "a"),
        (" a ", "Bearer b", "a"),
        ("", "Basic a", ""),
        ("", "Bearer", ""),
        ("", "", ""),
    ],
)
def test_a_key_comes_in_either_header(api_key: str, authorization: str, plain: str) -> None:
    assert plain_key(api_key, authorization) == plain
