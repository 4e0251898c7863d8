from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.safety.patterns.catalog import RULES
from inference.safety.patterns.emails import EMAIL
from inference.safety.patterns.shapes import Rule, Shapes, chars, either, literal, marked, repeat, seq, words

ADDRESSES = st.from_regex(r"[a-z0-9][a-z.+'-]{0,8}@([a-z0-9][a-z0-9-]{0,5}\.){1,5}[a-z]{2,5}", fullmatch=True)
SHAPE = seq("ab", chars("0-9", 1, 3), repeat(seq(chars("-", 0, 1), either("x", "yz")), 1, 2), either("", "!"))


def matches(regex: str) -> st.SearchStrategy[str]:
    return st.from_regex(regex, fullmatch=True, alphabet=st.characters(codec="ascii"))


def test_it_works() -> None:
    for text in ("ab1x", "ab123-yz-yz!", "ab12xyz"):
        assert re.fullmatch(SHAPE.whole, text)
        assert all(re.match(SHAPE.begun, text[:end]) for end in range(len(text) + 1))


@pytest.mark.parametrize("text", ["b", "ab1234", "abx", "ab1-y ", "ab1x!x", "ab1xxx"])
def test_what_cannot_go_on_is_no_beginning(text: str) -> None:
    assert not re.match(SHAPE.begun, text)


@given(data=st.data())
@settings(deadline=None, max_examples=150)
def test_every_beginning_of_a_match_is_known(data: st.DataObject) -> None:
    rule = data.draw(st.sampled_from(RULES))
    text = data.draw(ADDRESSES if rule.category == EMAIL else matches(rule.shape.whole))
    assert re.fullmatch(rule.shape.whole, text)
    assert re.match(rule.begun, text[: data.draw(st.integers(0, len(text)))])
    assert not rule.joints or re.match(rule.begun, text + "-")


def test_words_stand_alone() -> None:
    start = re.compile(words(["key_", "-----"]))
    assert start.search("a key_")
    assert start.search(r"a\nkey_")
    assert start.search("1-----")
    assert start.search("a key")
    assert not start.search("akey_")
    assert not start.search("a keys")


def test_a_marked_part_is_reported() -> None:
    rule = Rule("c", "k", seq(literal("k="), marked(chars("a-z", 3))))
    assert Shapes([rule]).search("k=abc.", 0, True) == ([(2, 5, "c")], 6)
