from __future__ import annotations

from itertools import count, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.stop_strings import StopStrings
from inference.text import CallKind, CallPart, Piece

SMALL = st.text(alphabet="ab😀", max_size=30)
STOPS = st.lists(st.text(alphabet="ab😀", min_size=1, max_size=6), max_size=4)
CUTS = st.lists(st.integers(0, 30), max_size=20)

thorough = settings(deadline=None, max_examples=200)


def split(text: str, cuts: list[int]) -> list[Piece]:
    """Cut a text into pieces of one or two tokens, some of them without text."""
    ids = count()
    edges = sorted([0, len(text), *(min(cut, len(text)) for cut in cuts)])
    return [Piece(tuple(next(ids) for _ in range(1 + start % 2)), text[start:end]) for start, end in pairwise(edges)]


def text_of(pieces: list[Piece]) -> str:
    return "".join(piece.text for piece in pieces)


def ids_of(pieces: list[Piece]) -> list[int]:
    return [token_id for piece in pieces for token_id in piece.token_ids]


def run(stops: list[str], pieces: list[Piece]) -> tuple[StopStrings, list[Piece]]:
    filtered, out = StopStrings(stops), []
    for piece in pieces:
        out += filtered.push(piece)
    return filtered, out + filtered.flush()


def expected(stops: list[str], text: str) -> tuple[str, str | None]:
    """The text before the match that starts first, and the match: of those that start there, the shortest."""
    found = [(text.find(stop), len(stop), stop) for stop in stops if stop in text]
    start, _, stop = min(found, default=(len(text), 0, None))
    return text[:start], stop


def words(*texts: str) -> list[Piece]:
    return [Piece((n,), text) for n, text in enumerate(texts)]


def test_it_works() -> None:
    filtered, out = run(["\nUser:"], words("Hello", "\n", "Us", "er", ": more", " text"))
    assert out == words("Hello")
    assert filtered.matched == "\nUser:"


def test_without_stops_pieces_pass() -> None:
    (piece,) = words("Hello")
    stops = StopStrings([])
    assert stops.push(piece) == [piece]
    assert stops.flush() == []
    assert stops.matched is None


def test_it_holds_what_may_begin_a_stop_string_and_nothing_else() -> None:
    stops, (hello, begin, other) = StopStrings(["<end>"]), words("Hello", " <en", "try>")
    assert stops.push(hello) == [hello]
    assert stops.push(begin) == []
    assert stops.push(other) == [begin, other]


def test_the_final_cut_can_be_inside_a_token() -> None:
    _, out = run(["stop"], words("one ", "two stop three"))
    assert out == words("one ", "two ")


def test_nothing_comes_after_a_match() -> None:
    stops = StopStrings(["."])
    assert stops.push(Piece((1,), "a.b")) == [Piece((1,), "a")]
    assert stops.push(Piece((2,), "c")) == []
    assert stops.flush() == []


@pytest.mark.parametrize(
    ("text", "before", "matched"),
    [("abcd", "", "abcd"), ("abcx", "a", "bc"), ("abc", "a", "bc"), ("xbcd", "x", "bc"), ("abab", "abab", None)],
)
def test_the_match_that_starts_first_wins(text: str, before: str, matched: str | None) -> None:
    filtered, out = run(["abcd", "bc"], words(*text))
    assert (text_of(out), filtered.matched) == (before, matched)


def test_it_rejects_an_empty_stop_string() -> None:
    with pytest.raises(ValueError, match="empty"):
        StopStrings(["a", ""])


@given(text=SMALL, stops=STOPS, cuts=CUTS)
@thorough
def test_any_split_gives_the_text_up_to_the_match(text: str, stops: list[str], cuts: list[int]) -> None:
    pieces = split(text, cuts)
    filtered, out = run(stops, pieces)
    assert (text_of(out), filtered.matched) == expected(stops, text)
    assert ids_of(out) == ids_of(pieces)[: len(ids_of(out))]
    if filtered.matched is None:
        assert out == pieces


@given(text=SMALL, stops=STOPS, cuts=CUTS)
@thorough
def test_nothing_leaks_and_little_is_held(text: str, stops: list[str], cuts: list[int]) -> None:
    pieces, filtered = split(text, cuts), StopStrings(stops)
    longest_stop = max(map(len, stops), default=0)
    pushed = released = 0
    for piece in pieces:
        pushed += len(piece.text)
        released += len(text_of(filtered.push(piece)))
        if filtered.matched is not None:
            break
        may_begin = [n for n in range(pushed) if any(stop.startswith(text[n:pushed]) for stop in stops)]
        assert released <= min(may_begin, default=pushed)
        assert pushed - released <= longest_stop + max(len(piece.text) for piece in pieces)


@given(text=SMALL, stops=STOPS, cuts=CUTS)
@thorough
def test_releases_are_whole_pieces_but_for_the_last(text: str, stops: list[str], cuts: list[int]) -> None:
    pieces = split(text, cuts)
    _, out = run(stops, pieces)
    assert out[:-1] == pieces[: max(len(out) - 1, 0)]


def calling(token_id: int, text: str, *places: int) -> Piece:
    """Return a piece with a whole call at each place of its text."""
    kinds: tuple[CallKind, ...] = ("start", "input", "end")
    return Piece((token_id,), text, tuple(CallPart(at, kind, "f") for at in places for kind in kinds))


def test_a_call_sets_free_what_was_held() -> None:
    stops, (begin, call, end) = StopStrings(["abc"]), (Piece((1,), "ab"), calling(2, "", 0), Piece((3,), "c"))
    assert stops.push(begin) == []
    assert stops.push(call) == [begin, call]
    assert [*stops.push(end), *stops.flush()] == [end]
    assert stops.matched is None


def test_a_call_makes_a_match_final() -> None:
    stops = StopStrings(["abcd", "bc"])
    assert stops.push(Piece((1,), "abc")) == []
    assert stops.push(calling(2, "", 0)) == [Piece((1,), "a")]
    assert stops.matched == "bc"


@pytest.mark.parametrize(
    ("piece", "out"),
    [
        (calling(1, "xSTOPy", 0), calling(1, "x", 0)),
        (calling(1, "STOPy", 0), calling(1, "", 0)),
        (calling(1, "xSTOPy", 6), Piece((1,), "x")),
        (calling(1, "STxOPSTOP", 2, 5), calling(1, "STxOP", 2, 5)),
    ],
)
def test_a_cut_beside_calls_in_one_token(piece: Piece, out: Piece) -> None:
    assert StopStrings(["STOP"]).push(piece) == [out]
