"""What an answer is held to, in the language of llguidance: calls of tools in a model's format, JSON of a schema."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Self

from llguidance import LLMatcher, LLParserLimits, LLTokenizer

from inference.protocol.tools import ToolFormat
from streaming.schemas import Body

# JSON as models were shown it, on one line: where space is free a small model may write nothing else.
_WRITING = {
    "item_separator": ", ",
    "key_separator": ": ",
    "whitespace_flexible": False,
    "coerce_one_of": False,
    "lenient": False,
}
_LIMITS = LLParserLimits(verbose_errors=False)
LONGEST_REASON = 200


@dataclass(frozen=True, slots=True)
class MarkTokens:
    """The tokens that llguidance takes for no text: ids by content, and those of them that are `shown` all the same."""

    ids: Mapping[str, int] = field(default_factory=dict)
    shown: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, added_tokens: Iterable[Mapping[str, Any]]) -> Self:
        """Find them among the added tokens of a tokenizer.json."""
        special = {token["content"]: token["id"] for token in added_tokens if token["special"]}
        tags = {token["content"]: token["id"] for token in added_tokens if re.fullmatch("<.*>", token["content"])}
        return cls(ids=special | tags, shown={content: n for content, n in tags.items() if content not in special})


class CallGrammar:
    """Grammars for calls in one format, given the names of the tools and the schemas of their inputs.

    Marks that are tokens of their own, and no text, are named by their ids.
    """

    def __init__(self, form: ToolFormat, tools: Mapping[str, Body], tokens: MarkTokens) -> None:
        self._form, self._tools, self._tokens = form, tools, tokens

    def forced(self, *, parallel: bool, output: Body | None = None) -> str:
        """Allow nothing but calls, or else JSON of the schema `output` where there is one."""
        rules = [
            f"calls: {self._calls(parallel=parallel, marked=output is not None)}",
            *self._rules(parallel=parallel),
        ]
        if output is None:
            return _grammar("start: calls", *rules)
        return _grammar("start: calls | output", f"output: {_json(output)}", *rules)

    def free(self, *, parallel: bool) -> str:
        """Allow any text, but after an opening mark only a call."""
        rules = [*self._text(), *self._rules(parallel=parallel)]
        begun = f"text {self._opening}"
        if self._form.opening not in self._tokens.ids:
            rules.append(f"head[lazy]: TEXT {self._opening}")
            begun = "(TEXT shown)* head" if self._shown else "head"
        start = f"({begun} rest)* text" if parallel and self._can_repeat else f"{begun} rest | text"
        if self._form.bare:  # whose beginning, too, is a mark
            start += " | bare"
            rules += self._bare_rules()
        return _grammar(f"start: {start}", *rules)

    def none(self) -> str:
        """Allow text without an opening mark."""
        without = ""
        if self._form.opening not in self._tokens.ids:
            without = f" & ~/(?s:.*){re.escape(self._form.opening)}(?s:.*)/"
        return _grammar("start: text", *self._text(without))

    def _text(self, without: str = "") -> Iterator[str]:
        """Yield the rules for text, and for the tokens in it that are shown, but are none."""
        yield "TEXT: /(?s:.*)/" + without
        yield "text: TEXT (shown TEXT)*" if self._shown else "text: TEXT"
        if self._shown:
            yield f"shown: <[{','.join(map(str, self._shown))}]>"

    @property
    def _shown(self) -> list[int]:
        return [token_id for content, token_id in self._tokens.shown.items() if content not in self._form.marks]

    @property
    def _can_repeat(self) -> bool:
        """Whether a mark opens one call, and another mark the next."""
        return not (self._form.listed or self._form.bare)

    @property
    def _opening(self) -> str:
        return self._mark(self._form.opening)

    def _mark(self, mark: str) -> str:
        return f"<[{self._tokens.ids[mark]}]>" if mark in self._tokens.ids else _quoted(mark)

    def _calls(self, *, parallel: bool, marked: bool) -> str:
        if self._form.bare and not marked:
            return "rest"
        more = f"{self._opening} rest" if self._form.named else f'"\\n" {self._opening} rest'
        return f"{self._opening} rest ({more})*" if parallel and self._can_repeat else f"{self._opening} rest"

    def _rules(self, *, parallel: bool) -> Iterator[str]:
        """Yield the rule `rest`, for what follows the opening mark, and those that it needs."""
        form = self._form
        if form.named:
            mark = self._mark(form.arguments_mark)
            if form.id_mark in self._tokens.ids:
                mark = f"({self._mark(form.id_mark)} /[A-Za-z0-9]{{9}}/)? {mark}"
            yield "rest: " + " | ".join(f"{_quoted(name)} {mark} input_{n}" for n, name in enumerate(self._tools))
        elif form.listed:
            yield 'rest: " "? "[" call (", " call)* "]"' if parallel else 'rest: " "? "[" call "]"'
        else:
            yield f'rest: "\\n" call "\\n" {self._mark(form.closing)}' if form.closing else "rest: call"
        if not form.named:
            yield "call: " + " | ".join(f'{_quoted(head)} input_{n} "}}"' for n, head in enumerate(self._heads()))
        yield from (f"input_{n}: {_json(schema)}" for n, schema in enumerate(self._tools.values()))

    def _bare_rules(self) -> Iterator[str]:
        heads = list(self._heads())
        yield "bare: " + " | ".join(f'head_{n} input_{n} "}}"' for n in range(len(heads)))
        yield from (f"head_{n}[lazy]: {_quoted(head)}" for n, head in enumerate(heads))

    def _heads(self) -> Iterator[str]:
        for name in self._tools:
            yield f'{{"name": {json.dumps(name)}, "{self._form.arguments[0]}": '


def output_grammar(schema: Body) -> str:
    """Allow nothing but JSON of a schema."""
    return _grammar("start: output", f"output: {_json(schema)}")


@lru_cache(maxsize=512)
def problem_with(grammar: str) -> str:
    """Say why nothing can be held to a grammar, "" when something can. Takes some 0.1 s at the worst, without the GIL.

    It is compiled for a vocabulary of bytes: a model's own matters to masks, not to this.
    """
    matcher = LLMatcher(_bytes_tokenizer(), grammar, log_level=0, limits=_LIMITS)
    if not matcher.is_error():
        matcher.compute_bitmask()
    if not matcher.is_error() and (matcher.is_accepting() or not matcher.is_stopped()):
        return ""
    said = " ".join(matcher.get_error().partition("<")[0].split())
    if said.startswith("NoExtension"):
        return "nothing fits it"
    return re.sub(r"^at \d+\(\d+\): failed to compile JSON schema: ", "", said)[:LONGEST_REASON]


class _Bytes:
    """A vocabulary of bytes, as llguidance wants to see one."""

    is_tokenizer_wrapper = True
    eos_token_id = 256
    bos_token_id = None
    tokens = [bytes([byte]) for byte in range(256)] + [b"<end>"]
    special_token_ids = [256]

    def __call__(self, text: bytes | str) -> list[int]:
        return list(text.encode() if isinstance(text, str) else text)


@lru_cache(maxsize=1)
def _bytes_tokenizer() -> LLTokenizer:
    return LLTokenizer(_Bytes(), n_vocab=257, slices=[])  # type: ignore[arg-type]  # its own wrapper is no protocol


def _grammar(*rules: str) -> str:
    # Text that can only go on in one way is not forced as the tokens that it would be encoded to: among them could be
    # control tokens, where it holds their names.
    return "\n".join(('%llguidance {"no_forcing": true}', *rules, ""))


def _json(schema: Body) -> str:
    return "%json " + json.dumps(schema | {"x-guidance": _WRITING})


def _quoted(text: str) -> str:
    return json.dumps(text)
