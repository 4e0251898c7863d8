"""JSON with its escapes undone."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.safety.unescape import Unescaper


def read(*written: str) -> tuple[str, int]:
    reader = Unescaper()
    known = [pair for part in written for pair in reader.push(part)] + reader.flush()
    return "".join(character for character, _ in known), sum(length for _, length in known)


def test_it_works() -> None:
    written = r'{"a\n": "\u0034\"\ud83d\ude42\/", "b": 4111}'
    assert read(written) == ('{"a\n": "4"🙂/", "b": 4111}', len(written))


@given(value=st.text(), cut=st.integers(0, 200), is_ascii=st.booleans())
def test_it_undoes_what_a_writer_does_wherever_it_is_cut(value: str, cut: int, is_ascii: bool) -> None:
    value = value.encode("utf-8", "ignore").decode()
    written = json.dumps([value], ensure_ascii=is_ascii)
    assert read(written[:cut], written[cut:]) == (f'["{value}"]', len(written))


@pytest.mark.parametrize(
    ("written", "meaning"),
    [
        (r'"\x41"', r'"\x41"'),
        (r'"\u00g1"', r'"\u00g1"'),
        (r'"\ud83d"', '"�"'),
        (r'"\ud83dA"', '"�A"'),
        (r'"\ud83d\n"', '"�\n"'),
        (r'"\ud83d\ud83d\ude42"', '"�🙂"'),
        (r'"\ude42"', '"�"'),
        (r'"\u00', r'"\u00'),
        ("\\n", "\\n"),  # not in a string
    ],
)
def test_what_is_no_escape_stays(written: str, meaning: str) -> None:
    assert read(written) == (meaning, len(written))
    assert read(*written) == (meaning, len(written))
