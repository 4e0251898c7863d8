from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.safety.patterns import PatternSet
from inference.safety.patterns.phrases import LONGEST_PHRASE
from inference.safety.patterns.reading import fold

WORD = st.text(alphabet="abк", min_size=1, max_size=3)
PHRASE = st.lists(WORD, min_size=1, max_size=3).map(" ".join)


def found(phrases: list[str], text: str) -> list[str]:
    hits = PatternSet(["blocklist"], {"list": phrases}).find(text)
    return [text[hit.start : hit.end] for hit in hits]


def test_it_works() -> None:
    assert found(["black sheep", "wolf"], "A WOLF among black\n sheep, no wolfhound.") == ["WOLF", "black\n sheep"]


def test_the_longest_phrase_that_begins_first_counts() -> None:
    assert found(["a b", "a b c", "b c d"], "a b c d") == ["a b c"]
    assert found(["a b", "a b c d"], "a b c e") == ["a b"]


@pytest.mark.parametrize(
    ("phrase", "text", "spans"),
    [
        ("wolf", "wolf's wolf_x wolf-pack werewolf wolf2", ["wolf"] * 3),
        ("傻瓜", "你傻瓜吗傻瓜", ["傻瓜", "傻瓜"]),
        ("は", "ばは", ["は"]),
        ("바", "바박", ["바"]),
        ("कि", "किताब कि", ["कि"]),
        ("ताब", "किताब ताब", ["ताब"]),
        ("#tag", "x#tag #tags", ["#tag"]),
        ("c++", "c++11 c++ cc++", ["c++", "c++"]),
        ("wolf", "狼wolf狼", ["wolf"]),
        ("strasse", "Die Straße.", ["Straße"]),
        ("fin", "ﬁn", ["ﬁn"]),
    ],
)
def test_words_end_where_their_script_ends_them(phrase: str, text: str, spans: list[str]) -> None:
    assert found([phrase], text) == spans


def test_a_phrase_can_be_in_several_lists() -> None:
    hits = PatternSet(["blocklist"], {"a": ["wolf"], "b": ["Wolf", "wolf"], "c": []}).find("wolf")
    assert [hit.category for hit in hits] == ["blocklist.a", "blocklist.b"]


@given(phrases=st.lists(PHRASE, min_size=1, max_size=5), text=st.lists(WORD, max_size=12).map(" ".join))
@settings(deadline=None)
def test_it_finds_what_looking_at_all_words_finds(phrases: list[str], text: str) -> None:
    words, listed, expected, at = text.split(), [fold(phrase).split() for phrase in phrases], list[str](), 0
    while at < len(words):
        lengths = [len(phrase) for phrase in listed if [fold(word) for word in words[at : at + len(phrase)]] == phrase]
        expected += [" ".join(words[at : at + max(lengths)])] if lengths else []
        at += max(lengths, default=1)
    assert found(phrases, text) == expected


@pytest.mark.parametrize("phrase", ["", "  ", "\u200b\u00ad", "\u0301", "\u2800"])
def test_a_phrase_without_anything_to_see_is_left_out_and_told_of(
    phrase: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert found([phrase, "oaf"], "an oaf")
    assert "blocklist.list: the phrase" in caplog.text


def test_it_rejects_a_phrase_that_is_too_long() -> None:
    assert found(["x" * LONGEST_PHRASE], "x" * LONGEST_PHRASE)
    with pytest.raises(ValueError, match=rf"at most {LONGEST_PHRASE} characters, not {LONGEST_PHRASE + 1}"):
        found(["x" * (LONGEST_PHRASE + 1)], "")
