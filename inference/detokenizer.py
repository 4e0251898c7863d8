"""From token ids to text, one token at a time: what comes out in pieces is what the whole would have been."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from tokenizers import Tokenizer

from inference.text import Piece

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

# How a text ends that ends inside a character. (Python's incremental decoder waits for more after ED A0, too, which
# no character begins with.)
_INCOMPLETE = re.compile(
    rb"(?:[\xC2-\xF4]|\xE0[\xA0-\xBF]|[\xE1-\xEC\xEE\xEF][\x80-\xBF]|\xED[\x80-\x9F]"
    rb"|(?:\xF0[\x90-\xBF]|[\xF1-\xF3][\x80-\xBF]|\xF4[\x80-\x8F])[\x80-\xBF]?)\Z"
)
_BYTE_TOKEN = re.compile(r"<0x(\+?[0-9A-Fa-f]{1,2})>")


def split_incomplete(data: bytes) -> tuple[bytes, bytes]:
    """Split off the bytes at the end that begin a character."""
    match = _INCOMPLETE.search(data, max(0, len(data) - 3))
    return (data[: match.start()], data[match.start() :]) if match else (data, b"")


class Stream(Protocol):
    """The text of one message's tokens; `incomplete` while it ends inside a character."""

    @property
    def incomplete(self) -> bool: ...

    def feed(self, token_id: int) -> str: ...

    def finish(self) -> str: ...


class ByteStream:
    """Tokens are bytes, and their concatenation is UTF-8."""

    def __init__(self, tokens: Mapping[int, bytes]) -> None:
        self._tokens = tokens
        self._rest = b""

    @property
    def incomplete(self) -> bool:
        return bool(self._rest)

    def feed(self, token_id: int) -> str:
        data = self._tokens.get(token_id, b"")
        if self._rest or not data.isascii():
            data, self._rest = split_incomplete(self._rest + data)
        return data.decode(errors="replace")

    def finish(self) -> str:
        self._rest = b""
        return ""


class FallbackStream:
    """Tokens are text or, for what the vocabulary lacks, single bytes.

    A run of byte tokens is held to its end: one bad byte makes the one-shot decoder give U+FFFD for each byte of the
    run, the good ones before it included.
    """

    def __init__(self, tokens: Mapping[int, int | str], strip: int) -> None:
        self._tokens = tokens
        self._strip = strip  # spaces that may still go from the start of the message
        self._run = bytearray()

    @property
    def incomplete(self) -> bool:
        return bool(self._run)

    def feed(self, token_id: int) -> str:
        token = self._tokens.get(token_id)
        if token is None:
            return ""
        if isinstance(token, int):
            self._run.append(token)
            return ""
        return self._stripped(self._settle() + token)

    def finish(self) -> str:
        whole, _ = split_incomplete(bytes(self._run))
        self._run[:] = whole
        return self._stripped(self._settle())

    def _settle(self) -> str:
        """End the run of bytes and return its text."""
        run = bytes(self._run)
        self._run.clear()
        try:
            return run.decode()
        except UnicodeDecodeError:
            return REPLACEMENT * len(run)

    def _stripped(self, text: str) -> str:
        while self._strip and text:
            if not text.startswith(" "):
                self._strip = 0
                break
            text = text[1:]
            self._strip -= 1
        return text


class ContextStream:
    """Tokens whose text depends on their neighbours: each is decoded together with those of the text before."""

    def __init__(self, tokenizer: Tokenizer, known: Mapping[int, str], patience: int) -> None:
        self.incomplete = False
        self._tokenizer = tokenizer
        self._known = known
        self._patience = patience  # tokens for which a character may be incomplete
        self._window: list[int] = []
        self._read = 0  # tokens of the window whose text is out: _before
        self._before = ""

    def feed(self, token_id: int) -> str:
        if token_id not in self._known:
            return ""
        self._window.append(token_id)
        text = self._decode()
        self.incomplete = text.endswith(REPLACEMENT) and len(self._window) - self._read <= self._patience
        return "" if self.incomplete else self._advance(text)

    def finish(self) -> str:
        return self._advance(self._decode().rstrip(REPLACEMENT)) if self.incomplete else ""

    def _advance(self, text: str) -> str:
        new = text[len(self._before) :]
        del self._window[: self._read]
        self._read = len(self._window)
        self._before = self._decode()
        self.incomplete = False
        return new

    def _decode(self) -> str:
        return self._tokenizer.decode(self._window, skip_special_tokens=True)


class Vocabulary:
    """What the tokens of a model stand for; built once, shared by all its messages."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.stream: Callable[[], Stream]
        self._bytes: Mapping[int, bytes]
        tokens, steps = _visible_tokens(tokenizer), list(_decoder_steps(tokenizer))
        self._special = _special_tokens(tokenizer)
        if [step["type"] for step in steps] == ["ByteLevel"]:
            self._bytes = table = {token_id: _byte_level(token) for token_id, token in tokens.items()}
            self.stream = lambda: ByteStream(table)
        elif _is_byte_fallback(steps):
            units = {token_id: _fallback_unit(token, steps) for token_id, token in tokens.items()}
            self._bytes = {n: bytes([u]) if isinstance(u, int) else u.encode() for n, u in units.items()}
            strip = sum(step["start"] for step in steps if step["type"] == "Strip")
            self.stream = lambda: FallbackStream(units, strip)
        else:
            self._bytes = {token_id: token.encode() for token_id, token in tokens.items()}
            # A character has four bytes at most, and a token of this kind at least one.
            patience = 3 if any(step["type"].startswith("Byte") for step in steps) else 0
            self.stream = lambda: ContextStream(tokenizer, tokens, patience)

    @classmethod
    def load(cls, model_dir: Path) -> Vocabulary:
        """Read the tokenizer of a model folder."""
        return cls(Tokenizer.from_file(str(model_dir / "tokenizer.json")))

    def special(self, contents: Iterable[str]) -> dict[int, str]:
        """Return those of the special tokens that have such a content, by their ids."""
        wanted = set(contents)
        return {token_id: content for token_id, content in self._special.items() if content in wanted}

    def bytes_of(self, token_id: int) -> bytes:
        """Return the bytes a token adds to the text; none for a special or unknown one."""
        return self._bytes.get(token_id, b"")


class Detokenizer:
    """The text of one message; to rebuild it, push the same token ids again.

    A piece ends where a token and a character end together. Tokens without text of their own go with the next text.
    Special tokens have none, but for those that are `shown`.
    """

    def __init__(self, vocabulary: Vocabulary, shown: Mapping[int, str] | None = None) -> None:
        self._stream = vocabulary.stream()
        self._shown = shown or {}
        self._token_ids: list[int] = []
        self._text = ""

    def push(self, token_id: int) -> Piece | None:
        """Take one token; return the piece it completes."""
        self._token_ids.append(token_id)
        if token_id in self._shown:
            self._text += self._stream.finish() + self._shown[token_id]
        else:
            self._text += self._stream.feed(token_id)
        return None if self._stream.incomplete or not self._text else self._take()

    def flush(self) -> Piece | None:
        """Return what is held at the end, without an incomplete character."""
        self._text += self._stream.finish()
        return self._take() if self._token_ids else None

    def _take(self) -> Piece:
        piece = Piece(tuple(self._token_ids), self._text)
        self._token_ids.clear()
        self._text = ""
        return piece


def _special_tokens(tokenizer: Tokenizer) -> dict[int, str]:
    """Map the ids of those tokens that decoding skips to their contents."""
    added = tokenizer.get_added_tokens_decoder()
    return {token_id: token.content for token_id, token in added.items() if token.special}


def _visible_tokens(tokenizer: Tokenizer) -> dict[int, str]:
    """Map ids to tokens, without those that decoding skips."""
    added = tokenizer.get_added_tokens_decoder()
    special = set(_special_tokens(tokenizer).values())
    tokens = {token_id: token for token, token_id in tokenizer.get_vocab(with_added_tokens=True).items()}
    tokens |= {token_id: token.content for token_id, token in added.items()}
    return {token_id: token for token_id, token in tokens.items() if token not in special}


def _decoder_steps(tokenizer: Tokenizer) -> Iterator[dict[str, Any]]:
    """Yield the decoder's parts in their order, out of any nesting."""
    if tokenizer.decoder is None:
        return
    waiting = [json.loads(tokenizer.decoder.__getstate__())]
    while waiting:
        step = waiting.pop(0)
        if step["type"] == "Sequence":
            waiting[:0] = step["decoders"]
        else:
            yield step


def _is_byte_fallback(steps: list[dict[str, Any]]) -> bool:
    """Recognise what SentencePiece models are given: Replace, ByteFallback, Fuse and perhaps Strip."""
    kinds = [step["type"] for step in steps]
    return (
        kinds in (["Replace", "ByteFallback", "Fuse"], ["Replace", "ByteFallback", "Fuse", "Strip"])
        and "String" in steps[0]["pattern"]
        and all(step["content"] == " " and step["stop"] == 0 for step in steps[3:])
    )


def _fallback_unit(token: str, steps: list[dict[str, Any]]) -> int | str:
    """Return a byte token's byte, or another token's text."""
    text = token.replace(steps[0]["pattern"]["String"], steps[0]["content"])
    match = _BYTE_TOKEN.fullmatch(text) if len(text) == 6 else None
    return int(match[1], 16) if match else text


def _byte_level_alphabet() -> dict[str, int]:
    """Build GPT-2's alphabet: printable bytes stand for themselves, the others for the characters from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(0x100) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(0x100 + n): byte for n, byte in enumerate(others)}


_ALPHABET = _byte_level_alphabet()


def _byte_level(token: str) -> bytes:
    try:
        return bytes([_ALPHABET[character] for character in token])
    except KeyError:  # an added token: its content stands for itself
        return token.encode()
