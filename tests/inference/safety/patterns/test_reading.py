# ruff: noqa: RUF001 - lookalikes are what it is about
from __future__ import annotations

import string
from itertools import pairwise
from unicodedata import normalize

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.safety.patterns.lookalikes import LOOKALIKES
from inference.safety.patterns.reading import LONGEST_RUN, Reading, fold

ODD = st.text(alphabet=st.sampled_from("aи K1傻ﬁßé½\u0301\u0306\u200b\u00ad\ufe0f\n\t\u3000バ각İΐ①"), max_size=60)


def read(text: str, size: int = 1_000) -> Reading:
    reading = Reading(folding=True)
    for at in range(0, len(text), size):
        reading.add(text[at : at + size])
    return reading


def test_it_works() -> None:
    reading = read("Ｋ\u200béy  \n ﬁn")
    assert (reading.text, reading.folded) == ("Key fin", "key fin")
    assert [reading.place(at) for at in range(8)] == [0, 2, 3, 4, 8, 8, 9, 10]


@pytest.mark.parametrize(
    ("written", "folded"),
    [
        ("ІDІОТ", "idiot"), ("𝓲𝓭𝓲𝓸𝓽", "idiot"), ("i\u0336d\u0336iot", "idiot"), ("id\u200bi\u2060o\u00adt", "idiot"),
        ("ⓘⓓⓘⓞⓣ", "idiot"), ("🅘🅓🅘🅞🅣", "idiot"), ("İSTANBUL", "istanbul"), ("straße STRASSE", "strasse strasse"),
        ("ﬀﬃ", "ffffi"), ("don’t — stop", "don't - stop"), ("a \t\n b", "a b"), ("١٢٣ ४५", "123 45"), ("łódź", "lodz"),
        ("a\u2800b", "a b"), ("शक्ति", "शक्ति"), ("น้ำ", "น้ํา"), ("שָׁלוֹם", "שלום"), ("مُحَمَّد", "محمد"),
    ],
)  # fmt: skip
def test_what_looks_alike_is_alike(written: str, folded: str) -> None:
    assert fold(written) == folded


@pytest.mark.parametrize(("one", "other"), [("мои", "мой"), ("は", "ば"), ("ウ", "ヴ"), ("바", "박")])
def test_other_letters_stay_others(one: str, other: str) -> None:
    assert fold(one) != fold(other)


@given(text=ODD, size=st.integers(1, 5))
@settings(deadline=None)
def test_pieces_make_no_difference(text: str, size: int) -> None:
    whole, pieces = read(text), read(text, size)
    assert (whole.text, whole.folded, whole.length) == (pieces.text, pieces.folded, pieces.length)
    assert [whole.place(at) for at in range(len(whole.text) + 1)] == [
        pieces.place(at) for at in range(len(whole.text) + 1)
    ]


@given(text=ODD)
@settings(deadline=None)
def test_every_character_has_its_place(text: str) -> None:
    reading = read(text)
    places = [reading.place(at) for at in range(len(reading.text) + 1)]
    assert len(reading.text) == len(reading.folded)
    assert all(before <= after for before, after in pairwise(places))
    assert all(reading.text[at] in read(text[place]).text + "\u0306" for at, place in enumerate(places[:-1]))


@given(character=st.characters(exclude_categories=["Cs"]))
@settings(max_examples=500)
def test_composed_and_decomposed_characters_are_alike(character: str) -> None:
    assert fold(normalize("NFD", character)) == fold(character)


@given(text=ODD, cut=st.integers(0, 60))
@settings(deadline=None)
def test_forgetting_changes_no_place(text: str, cut: int) -> None:
    reading, whole = read(text * 3), read(text * 3)
    gone = reading.forget(min(cut, len(whole.text)))
    reading.add("x ﬁ")
    whole.add("x ﬁ")
    assert reading.text == whole.text[gone:]
    assert [reading.place(at) for at in range(len(reading.text) + 1)] == [
        whole.place(at) for at in range(gone, len(whole.text) + 1)
    ]


@given(character=st.characters(exclude_categories=["Cs"]))
@settings(max_examples=500)
def test_folded_and_read_text_go_together(character: str) -> None:
    reading = read(character)
    assert len(reading.text) == len(reading.folded)
    assert read(reading.text).text == reading.text or "\u0306" in reading.text


def test_plain_text_is_read_as_it_is() -> None:
    printable = "".join(sorted(string.printable.replace(string.whitespace, "")))
    assert read(printable, 1).text == printable == read(printable + "é").text[:-1]
    assert read(printable, 1).folded == printable.lower()


def test_a_long_run_of_invisible_characters_ends_a_word() -> None:
    assert fold("ab" + "\u200b" * (LONGEST_RUN - 1) + "cd") == "abcd"
    assert read("ab" + "\u200b" * LONGEST_RUN + "cd").folded == "ab  cd"
    assert read("ab" + " " * (LONGEST_RUN + 1) + "cd").folded == "ab  cd"


def test_the_table_is_of_folded_letters() -> None:
    assert all(alike == alike.casefold() and alike == read(alike).text for alike in LOOKALIKES)
    assert {*LOOKALIKES.values()} <= {*string.ascii_lowercase}
