from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.safety.patterns import CATEGORIES, Hit, PatternSet
from tests.inference.safety.patterns.samples import BLOCKLISTS, PERSONAL, SECRETS, fill

DEFAULT = PatternSet(["secrets", "personal_data", "blocklist"], BLOCKLISTS)
EVERY = PatternSet([*CATEGORIES, "blocklist"], BLOCKLISTS)
PROSE = (
    "The river rose in the night, and by the morning the lower meadow was a lake. Nobody had slept much; the children "
    "were sent to the mill, and the old men argued about the dam of 1954 as if it had been last week.\n"
)
SENTENCE = "My card is 4111 1111 1111 1111 and my mail is ann.example@example.org."
LONGEST_HELD = 600  # characters, where none of them are invisible

SAMPLES = [*SECRETS.values(), *PERSONAL.values(), *(phrase for phrases in BLOCKLISTS.values() for phrase in phrases)]
BITS = [
    *(" ", "  ", "\n", " \n ", ".", ",", "-", "+", "(", ")", "@", "=", "1", "42", "4111", "x", "s", "A", "K", "the"),
    *("tel. ", "order ", "eyJ", "sk-", "-----", "\u200b", "\u00ad", "\u0301", "\u0306", "\ufe0f", "и", "ﬁ", "ß", "é"),
    *("\uff10", "傻", "바", "ㅂ", "\u3000", "\u200b" * 70, " " * 70),
]


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Draw texts of samples, whole or cut or with something in them, and of what may stand around them."""
    parts: list[str] = []
    for _ in range(draw(st.integers(1, 6))):
        sample = draw(st.sampled_from([*SAMPLES, *BITS]))
        cut = draw(st.integers(0, len(sample)))
        kind = draw(st.sampled_from(["whole", "whole", "start", "end", "filled"]))
        filled = sample[:cut] + draw(st.sampled_from(BITS)) + sample[cut:]
        parts.append({"whole": sample, "start": sample[:cut], "end": sample[cut:], "filled": filled}[kind])
    return "".join(parts)


CUTS = st.one_of(st.just([*range(2_000)]), st.lists(st.integers(0, 400), max_size=30))


def pieces(text: str, cuts: list[int]) -> list[str]:
    edges = sorted({0, len(text), *(min(cut, len(text)) for cut in cuts)})
    return [text[start:end] for start, end in pairwise(edges)]


def spans(text: str, hits: list[Hit]) -> list[tuple[str, str]]:
    return [(hit.category, text[hit.start : hit.end]) for hit in hits]


def held(patterns: PatternSet, text: str, size: int = 4) -> list[int]:
    """Return how many characters are held back after each piece of a text."""
    scan, counts = patterns.scan(), []
    for end in range(size, len(text) + 1, size):
        scan.push(text[end - size : end])
        counts.append(end - scan.open_start)
    return counts


def test_it_works() -> None:
    assert DEFAULT.find(SENTENCE) == [
        Hit(SENTENCE.index("4"), SENTENCE.index(" and"), "personal_data.card"),
        Hit(SENTENCE.index("ann."), len(SENTENCE) - 1, "personal_data.email"),
    ]


def test_it_reports_what_is_certain_and_nothing_before() -> None:
    scan = DEFAULT.scan()
    assert [scan.push(piece) for piece in ("So 4111", " 1111 1111 1111")] == [[], []]
    assert scan.open_start == 3
    assert scan.push(" is") == [Hit(3, 22, "personal_data.card")]
    assert scan.open_start == len("So 4111 1111 1111 1111 ")
    assert scan.flush() == []


def test_the_end_of_a_text_makes_matches_certain() -> None:
    scan = DEFAULT.scan()
    assert scan.push("4111 1111 1111 1111") == []
    assert scan.flush() == [Hit(0, 19, "personal_data.card")]
    assert scan.open_start == 19


def test_false_friends_pass() -> None:
    assert EVERY.find("Call 4111 times, mail to no one at all. " * 8) == []


@given(text=texts(), cuts=CUTS)
@settings(deadline=None, max_examples=300)
def test_any_split_gives_the_same_and_what_is_let_go_is_in_no_hit(text: str, cuts: list[int]) -> None:
    whole, scan, hits, length = EVERY.find(text), EVERY.scan(), list[Hit](), 0
    assert [hit.start for hit in whole] == sorted(hit.start for hit in whole)
    for piece in pieces(text, cuts):
        before = scan.open_start
        hits += scan.push(piece)
        length += len(piece)
        assert before <= scan.open_start <= length
        assert all(scan.open_start <= hit.start for hit in whole[len(hits) :])
    assert hits + scan.flush() == whole


@given(text=st.text(), cuts=CUTS)
@settings(deadline=None)
def test_any_text_at_all(text: str, cuts: list[int]) -> None:
    scan = EVERY.scan()
    hits = [hit for piece in pieces(text, cuts) for hit in scan.push(piece)]
    assert hits + scan.flush() == EVERY.find(text)


@pytest.mark.parametrize("category", CATEGORIES)
def test_each_category_finds_its_own(category: str) -> None:
    group, _, name = category.partition(".")
    sample = (SECRETS if group == "secrets" else PERSONAL)[name]
    text = f"So it is {sample} and nothing else."
    (hit,) = PatternSet([category]).find(text)
    assert (hit.category, hit.start) == (category, len("So it is "))


@pytest.mark.parametrize(
    "category", [name for name in CATEGORIES if name not in ("personal_data.email", "personal_data.it_codice_fiscale")]
)
def test_prose_is_hardly_held(category: str) -> None:
    counts = held(PatternSet([category]), PROSE * 3)
    assert max(counts) <= 6
    assert sum(counts) / len(counts) < 0.5


def test_of_prose_an_address_holds_the_last_word() -> None:
    scan, text = PatternSet(["personal_data.email"]).scan(), ""
    for character in PROSE:
        text += character
        scan.push(character)
        assert len(text) - scan.open_start <= len(text.split(" ")[-1])


def test_what_is_only_flagged_holds_nothing() -> None:
    patterns = PatternSet(["secrets", "personal_data.email"], held=["secrets"])
    scan = patterns.scan()
    scan.push("Write to ann.exam")
    assert scan.open_start == len("Write to ann.exam")
    assert spans("Write to ann.example@example.org", scan.push("ple@example.org ")) == [
        ("personal_data.email", "ann.example@example.org")
    ]


def test_a_hit_that_waits_for_an_earlier_one_is_held() -> None:
    text = "+49 30 1234567/" + SECRETS["npm_token"]  # the number may go on for longer than the token
    scan = PatternSet(["secrets", "personal_data.phone"], held=["secrets"]).scan()
    for character in text + " ":
        scan.push(character)
        assert scan.open_start <= text.index("npm") or scan.open_start > len(text)


@pytest.mark.parametrize(
    "text",
    ["a" * 9_000, "4" * 9_000, "4111 " * 2_000, "a@" * 4_000, "a." * 4_000, "-" * 9_000, "sk-" * 3_000, "eyJ." * 2_000,
     "1 2 " * 2_000, "+1 " * 3_000, "DE89 " * 2_000, "-----BEGIN " * 900, "secret key " * 900, "x.y@" * 2_000],
)  # fmt: skip
def test_the_worst_texts_are_held_for_a_while_only(text: str) -> None:
    assert max(held(EVERY, text, 16)) <= LONGEST_HELD


def test_invisible_characters_are_held_for_a_while_only() -> None:
    assert max(held(EVERY, "npm_" + "\u200b" * 9_000, 16)) <= LONGEST_HELD
    assert max(held(EVERY, "Project" + " " * 9_000, 16)) <= LONGEST_HELD


def test_hits_of_one_category_do_not_overlap() -> None:
    text = "4242 4242 4242 4242 4242 4242 4242 4242"
    assert spans(text, EVERY.find(text)) == [("personal_data.card", "4242 4242 4242 4242")] * 2


def test_a_group_stands_for_its_members_but_national_ids() -> None:
    text = fill("CPF 529.982.247-25, mail a@example.org, key {jwt}")
    assert {hit.category for hit in PatternSet(["personal_data"]).find(text)} == {"personal_data.email"}
    assert {hit.category for hit in PatternSet(["personal_data.br_cpf"]).find(text)} == {"personal_data.br_cpf"}
    assert {hit.category for hit in PatternSet(["secrets"]).find(text)} == {"secrets.jwt"}


def test_one_list_can_be_named() -> None:
    patterns = PatternSet(["blocklist.insults"], BLOCKLISTS)
    assert [hit.category for hit in patterns.find("Project Bluebird, numbskull!")] == ["blocklist.insults"]


def test_nothing_is_found_where_nothing_is_looked_for() -> None:
    scan = PatternSet([]).scan()
    assert scan.push(SENTENCE) == []
    assert scan.open_start == len(SENTENCE)


@pytest.mark.parametrize("name", ["secret", "secrets.aws", "blocklist.other", "", "personal_data.card.visa"])
def test_it_rejects_unknown_categories(name: str) -> None:
    with pytest.raises(ValueError, match=f"categories: expected .*, not '{name}'"):
        PatternSet([name], BLOCKLISTS)
