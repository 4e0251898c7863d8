from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.safety.windows import FIRST, LONGEST_WORD, STRIDE, WINDOW, covering, window, window_ends

CHARACTERS = "ab c.,\n-é鯨ท🐋\ud800"
texts = st.one_of(st.text(st.sampled_from(CHARACTERS), max_size=300), st.text(max_size=300))
HARMLESS = "The council met on Tuesday to discuss the new library, which will open in autumn, if all goes well."


def ends_of(text: str) -> list[int]:
    return list(window_ends(text, 0, over=True))


def test_it_works() -> None:
    ends = ends_of(HARMLESS)

    assert [HARMLESS[window(HARMLESS, end) : end] for end in ends[:3] + ends[-1:]] == [
        "The council met on Tuesday to discuss",
        "The council met on Tuesday to discuss the new",
        "The council met on Tuesday to discuss the new library",
        "the new library, which will open in autumn, if all goes well.",
    ]
    assert [HARMLESS[begin:end] for begin, end in covering(HARMLESS)] == [
        "The council met on Tuesday to discuss the new library, which",
        "Tuesday to discuss the new library, which will open in autumn",
        "the new library, which will open in autumn, if all goes well.",
    ]


@given(text=texts, cuts=st.lists(st.integers(0, 300)))
def test_pieces_make_no_difference(text: str, cuts: list[int]) -> None:
    found: list[tuple[int, int]] = []
    after = 0
    for cut in sorted({min(cut, len(text)) for cut in cuts} | {len(text)}):
        grown = text[:cut]
        for over in (False, True) if cut == len(text) else (False,):
            for end in window_ends(grown, after, over=over):
                found.append((window(grown, end), end))
                after = end

    assert found == [(window(text, end), end) for end in ends_of(text)]


@given(text=texts)
def test_a_growing_text_is_seen_to_its_end_without_a_hole(text: str) -> None:
    ends = ends_of(text)

    assert not text or ends[-1] == len(text)
    assert all(before < end <= before + STRIDE + LONGEST_WORD for before, end in pairwise(ends))
    assert all(window(text, end) <= before for before, end in pairwise(ends))
    assert all(window(text, end) == 0 for end in ends[:1])


@given(text=texts, size=st.integers(WINDOW, 4 * WINDOW))
def test_a_whole_text_is_covered(text: str, size: int) -> None:
    spans = list(covering(text, size))

    assert [begin for begin, _ in spans[:1]] == [0] * bool(text)
    assert [end for _, end in spans[-1:]] == [len(text)] * bool(text)
    assert all(second[0] < first[1] < second[1] for first, second in pairwise(spans))
    assert all(0 < end - begin <= size + LONGEST_WORD for begin, end in spans)


@given(text=texts, end=st.integers(1, 300))
def test_what_follows_a_window_has_no_say_in_it(text: str, end: int) -> None:
    end = min(end, len(text))

    assert window(text, end) == window(text[:end], end)
    assert min(end, WINDOW) <= end - window(text, end) <= WINDOW + LONGEST_WORD


@given(text=st.text(st.sampled_from("ab \n.,-"), max_size=300))
def test_short_words_are_never_cut(text: str) -> None:
    short = " ".join(word[: LONGEST_WORD - 1] for word in text.split(" "))

    places = {place for end in ends_of(short) for place in (window(short, end), end)}
    assert not any(short[place - 1 : place + 1].isalnum() for place in places if 0 < place < len(short))


@pytest.mark.parametrize(
    "text",
    ["鯨は海に住む大きな動物である" * 20, "ปลาวาฬเป็นสัตว์ใหญ่" * 20, "|----|----|\n" * 20, "x" * 300, "🐋" * 300],
)
def test_text_without_spaces_is_not_held_for_long(text: str) -> None:
    ends = list(window_ends(text, 0, over=False))

    assert ends[0] <= FIRST + LONGEST_WORD
    assert all(end - before <= STRIDE + LONGEST_WORD for before, end in pairwise(ends))
    assert len(text) - ends[-1] <= STRIDE + LONGEST_WORD


def test_a_short_text_is_one_window() -> None:
    assert ends_of("Kill the heat.") == [14]
    assert list(covering("Kill the heat.")) == [(0, 14)]
    assert list(window_ends("Kill the heat.", 0, over=False)) == ends_of("") == []
    assert list(covering("")) == []
