from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from inference.detokenizer import Detokenizer, Vocabulary
from inference.protocol import settings as sluice
from inference.text import Piece

SENTENCES = [
    "The quick brown fox jumps over the lazy dog, and then it jumps again.",
    "Streaming servers hold a character until it is whole; naïve ones do not.",
    "  Indented code:\n\tdef f(x):\n        return x  # twice",
    "日本語の文章と、中文的句子。 😀 😃 👩‍👩‍👧",
]
SCRAPS = [
    "😀",
    "👩🏽‍🚀",
    "日本",
    "e\u0301",
    "שלום",
    "مرحبا",
    "   ",
    "\n\n",
    "\t",
    " ",
    "\ufffd",
    "naïve",
    "the ",
    "▁",
    "<0x41>",
]

ANY_TEXT = st.lists(st.sampled_from(SCRAPS) | st.text(max_size=6), max_size=12).map("".join)
ANY_IDS = st.lists(st.integers(0, 2**16), max_size=40)

thorough = settings(deadline=None, max_examples=100)


def trained(tokenizer: Tokenizer, **options: Any) -> Tokenizer:
    trainer = trainers.BpeTrainer(vocab_size=600, show_progress=False, special_tokens=["<unk>", "</s>"], **options)
    tokenizer.train_from_iterator(SENTENCES, trainer)
    return tokenizer


def byte_level_bpe() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trained(tokenizer, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.add_tokens([AddedToken("<think>", normalized=False), AddedToken("日 é", normalized=False)])
    return tokenizer


def byte_fallback_bpe(*, strip: bool = True) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    tokenizer.decoder = decoders.Sequence(steps + [decoders.Strip(" ", 1, 0)] * strip)
    spec = json.loads(trained(tokenizer, limit_alphabet=60).to_str())
    vocab = spec["model"]["vocab"]
    vocab |= {f"<0x{byte:02X}>": len(vocab) + byte for byte in range(256)}
    spec["model"]["byte_fallback"] = True
    tokenizer = Tokenizer.from_str(json.dumps(spec))
    tokenizer.add_tokens([AddedToken("<think>", normalized=False)])
    return tokenizer


def word_piece() -> Tokenizer:
    words = ["[UNK]", "hello", "##ing", "##s", ".", ",", "n't", "do", "\ufffd", "日"]
    tokenizer = Tokenizer(models.WordPiece({word: n for n, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.decoder = decoders.WordPiece()
    return tokenizer


def metaspace() -> Tokenizer:
    tokenizer = Tokenizer(
        models.Unigram([("<unk>", 0.0), ("▁", -1.0), ("▁hello", -2.0), ("s", -1.0), ("▁日", -1.0)], 0)
    )
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.add_special_tokens(["<unk>"])
    return tokenizer


def end_of_word_bpe() -> Tokenizer:
    vocab = {"a": 0, "b</w>": 1, "c</w>": 2, ".</w>": 3}
    tokenizer = Tokenizer(models.BPE(vocab, [], end_of_word_suffix="</w>"))
    tokenizer.decoder = decoders.BPEDecoder()
    return tokenizer


def bare_words() -> Tokenizer:
    return Tokenizer(models.WordLevel({"one": 0, "two": 1, "three": 2}, unk_token="one"))


def odd_byte_level() -> Tokenizer:
    """Byte-level, but with one more step, so that only the generic way is left."""
    tokenizer = byte_level_bpe()
    tokenizer.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Replace("~", "-")])
    return tokenizer


class Case:
    """A tokenizer and its vocabulary, built once for all examples."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.vocabulary = Vocabulary(tokenizer)
        self.size = tokenizer.get_vocab_size() + 3  # models are often padded: ids that no token has
        known = [(self.vocabulary.bytes_of(token_id), token_id) for token_id in range(self.size)]
        self.single = {data[0]: token_id for data, token_id in known if len(data) == 1}

    def id_of(self, token: str) -> int:
        token_id = self.tokenizer.token_to_id(token)
        assert token_id is not None
        return token_id

    def pieces(self, ids: Iterable[int]) -> list[Piece]:
        detokenizer = Detokenizer(self.vocabulary)
        pieces = [piece for token_id in ids if (piece := detokenizer.push(token_id))]
        last = detokenizer.flush()
        return [*pieces, last] if last else pieces

    def text(self, ids: Iterable[int]) -> str:
        return "".join(piece.text for piece in self.pieces(ids))

    def one_shot(self, ids: Sequence[int]) -> str:
        return self.tokenizer.decode(ids, skip_special_tokens=True)


def real_tokenizer() -> Tokenizer:
    loaded = sluice.load()
    return Tokenizer.from_file(str(loaded.models_path / loaded.model / "tokenizer.json"))


BYTE_LEVEL = [byte_level_bpe, pytest.param(real_tokenizer, marks=pytest.mark.model)]
BYTE_FALLBACK = [byte_fallback_bpe, lambda: byte_fallback_bpe(strip=False)]
GENERIC = [word_piece, metaspace, end_of_word_bpe, bare_words]


@pytest.fixture(scope="session")
def case(request: pytest.FixtureRequest) -> Case:
    return Case(request.param())


on = pytest.mark.parametrize


BEGINNINGS = {
    chr(point).encode()[:size]
    for point in {*range(0x80, 0x110000, 64)} - {*range(0xD800, 0xE000)}
    for size in range(1, len(chr(point).encode()))
}


def incomplete_tail(data: bytes) -> int:
    """Count the bytes at the end that begin a character, by comparing with the beginnings of all."""
    return max((size for size in (1, 2, 3) if data[-size:] in BEGINNINGS and len(data) >= size), default=0)


@on("case", [*BYTE_LEVEL, *BYTE_FALLBACK], indirect=True)
def test_it_works(case: Case) -> None:
    ids = case.tokenizer.encode("The fox 😀 says: naïve 日本!", add_special_tokens=False).ids
    pieces = case.pieces(ids)
    assert "".join(piece.text for piece in pieces) == case.one_shot(ids)
    assert [token_id for piece in pieces for token_id in piece.token_ids] == ids
    assert len(pieces) > 5


@on("case", [*BYTE_LEVEL, *BYTE_FALLBACK], indirect=True)
@given(text=ANY_TEXT)
@thorough
def test_text_comes_out_whole(case: Case, text: str) -> None:
    ids = case.tokenizer.encode(text, add_special_tokens=False).ids
    pieces = case.pieces(ids)
    assert "".join(piece.text for piece in pieces) == case.one_shot(ids)
    assert [token_id for piece in pieces for token_id in piece.token_ids] == ids
    assert all(piece.text for piece in pieces[:-1])


@on("case", [byte_level_bpe], indirect=True)
@given(text=ANY_TEXT)
@thorough
def test_byte_level_text_is_the_text(case: Case, text: str) -> None:
    assert case.text(case.tokenizer.encode(text, add_special_tokens=False).ids) == text.replace("</s>", "")


@on("case", BYTE_LEVEL, indirect=True)
@given(numbers=ANY_IDS)
@thorough
def test_any_bytes_come_out_as_from_the_one_shot_decoder(case: Case, numbers: list[int]) -> None:
    ids = [number % case.size for number in numbers]
    expected = case.one_shot(ids)
    if incomplete_tail(b"".join(map(case.vocabulary.bytes_of, ids))):
        expected = expected.removesuffix("\ufffd")
    assert case.text(ids) == expected


@on("case", BYTE_LEVEL, indirect=True)
@given(data=st.binary(max_size=24))
@thorough
def test_any_byte_tokens_come_out_as_from_the_one_shot_decoder(case: Case, data: bytes) -> None:
    ids = [case.single[byte] for byte in data if byte in case.single]
    expected = case.one_shot(ids)
    if incomplete_tail(b"".join(map(case.vocabulary.bytes_of, ids))):
        expected = expected.removesuffix("\ufffd")
    assert case.text(ids) == expected


def without_incomplete_tail(case: Case, ids: list[int]) -> list[int]:
    """Drop the byte tokens at the end that begin a character."""
    shown = [token_id for token_id in ids if case.vocabulary.bytes_of(token_id)]
    run = bytearray()
    for token_id in reversed(shown):
        if not str(case.tokenizer.id_to_token(token_id)).startswith("<0x"):
            break
        run[:0] = case.vocabulary.bytes_of(token_id)
    return shown[: len(shown) - incomplete_tail(bytes(run))]


@on("case", BYTE_FALLBACK, indirect=True)
@given(numbers=ANY_IDS, data=st.binary(max_size=12) | ANY_TEXT.map(str.encode))
@thorough
def test_any_fallback_tokens_come_out_as_from_the_one_shot_decoder(case: Case, numbers: list[int], data: bytes) -> None:
    ids = [number % case.size for number in numbers]
    ids[len(ids) // 2 : len(ids) // 2] = [case.id_of(f"<0x{byte:02X}>") for byte in data]
    assert case.text(ids) == case.one_shot(without_incomplete_tail(case, ids))


@on("case", GENERIC, indirect=True)
@given(numbers=ANY_IDS)
@thorough
def test_tokens_that_depend_on_neighbours_are_decoded_with_them(case: Case, numbers: list[int]) -> None:
    ids = [number % case.size for number in numbers]
    pieces = case.pieces(ids)
    assert "".join(piece.text for piece in pieces) == case.one_shot(ids)
    assert [token_id for piece in pieces for token_id in piece.token_ids] == ids


@on("case", [odd_byte_level], indirect=True)
@given(text=ANY_TEXT.filter(lambda text: "\ufffd" not in text))
@thorough
def test_the_generic_way_holds_incomplete_characters(case: Case, text: str) -> None:
    ids = case.tokenizer.encode(text, add_special_tokens=False).ids
    pieces = case.pieces(ids)
    assert "".join(piece.text for piece in pieces) == case.one_shot(ids)
    assert all("\ufffd" not in piece.text for piece in pieces)


@on("case", [odd_byte_level], indirect=True)
def test_the_generic_way_drops_an_incomplete_end(case: Case) -> None:
    ids = case.tokenizer.encode("~ok🙈", add_special_tokens=False).ids
    assert case.text(ids) == "-ok🙈"
    assert case.text(ids[:-1]) == "-ok"


@on("case", [byte_level_bpe, byte_fallback_bpe], indirect=True)
def test_an_incomplete_end_is_dropped_but_its_tokens_are_not(case: Case) -> None:
    ids = case.tokenizer.encode("ok🙈", add_special_tokens=False).ids[:-1]
    pieces = case.pieces(ids)
    assert "".join(piece.text for piece in pieces).strip() == "ok"
    assert [token_id for piece in pieces for token_id in piece.token_ids] == ids
    assert pieces[-1].text == ""


@on("case", [byte_level_bpe], indirect=True)
def test_a_real_replacement_character_is_not_held(case: Case) -> None:
    detokenizer = Detokenizer(case.vocabulary)
    ids = case.tokenizer.encode("\ufffd").ids
    assert [detokenizer.push(token_id) for token_id in ids][-1] == Piece(tuple(ids), "\ufffd")


@on("case", [byte_level_bpe, byte_fallback_bpe], indirect=True)
def test_special_tokens_have_no_text_and_go_with_the_next(case: Case) -> None:
    end, word = case.id_of("</s>"), case.id_of("o")
    detokenizer = Detokenizer(case.vocabulary)
    assert detokenizer.push(end) is None
    assert detokenizer.push(word) == Piece((end, word), "o")
    assert detokenizer.push(end) is None
    assert detokenizer.flush() == Piece((end,), "")
    assert detokenizer.flush() is None


@on("case", [byte_level_bpe, byte_fallback_bpe], indirect=True)
def test_other_added_tokens_give_their_content(case: Case) -> None:
    assert case.text([case.id_of("<think>")]) == "<think>"
    assert case.vocabulary.bytes_of(case.id_of("<think>")) == b"<think>"


@on("case", [byte_fallback_bpe], indirect=True)
def test_one_bad_byte_spoils_its_run_as_in_the_one_shot_decoder(case: Case) -> None:
    ids = [case.id_of(f"<0x{byte:02X}>") for byte in b"\xf0\x9f\x98\x80\xff"]
    ids.append(case.id_of("o"))
    assert case.text(ids) == case.one_shot(ids) == "\ufffd" * 5 + "o"


@on("case", [byte_level_bpe], indirect=True)
@given(text=ANY_TEXT, cut=st.integers(0, 20))
@thorough
def test_it_is_rebuilt_by_pushing_the_same_ids(case: Case, text: str, cut: int) -> None:
    ids = case.tokenizer.encode(text).ids
    pieces = case.pieces(ids)
    released = [token_id for piece in pieces[:cut] for token_id in piece.token_ids]
    rebuilt = Detokenizer(case.vocabulary)
    assert [piece for token_id in released if (piece := rebuilt.push(token_id))] == [p for p in pieces[:cut] if p.text]


@pytest.mark.model
def test_it_loads_a_model_folder() -> None:
    loaded = sluice.load()
    vocabulary = Vocabulary.load(Path(loaded.models_path / loaded.model))
    assert vocabulary.bytes_of(0) == b""
    assert any(vocabulary.bytes_of(token_id) == b" the" for token_id in range(1000))


def test_special_tokens_are_shown_where_that_is_asked_for() -> None:
    tokenizer = byte_level_bpe()
    tokenizer.add_special_tokens([AddedToken("[CALL]", special=True)])
    vocabulary = Vocabulary(tokenizer)
    shown = vocabulary.special(["[CALL]", "</s>", "nothing"])
    assert sorted(shown.values()) == ["</s>", "[CALL]"]
    token_ids = tokenizer.encode("Hé[CALL] x", add_special_tokens=False).ids
    for wanted, expected in ((shown, "Hé[CALL] x"), ({}, "Hé x")):
        detokenizer = Detokenizer(vocabulary, wanted)
        pieces = [piece for token_id in token_ids if (piece := detokenizer.push(token_id))]
        assert "".join(piece.text for piece in pieces) == expected


def test_a_shown_token_ends_an_incomplete_character() -> None:
    tokenizer = byte_level_bpe()
    tokenizer.add_special_tokens([AddedToken("[CALL]", special=True)])
    vocabulary = Vocabulary(tokenizer)
    detokenizer = Detokenizer(vocabulary, vocabulary.special(["[CALL]"]))
    half = next(n for n in range(tokenizer.get_vocab_size()) if vocabulary.bytes_of(n) == "é".encode()[:1])
    assert detokenizer.push(half) is None
    (call,) = vocabulary.special(["[CALL]"])
    assert detokenizer.push(call) == Piece((half, call), "[CALL]")
