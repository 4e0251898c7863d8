"""Grammars: what they let a model write."""

from __future__ import annotations

import json
from typing import Any

import pytest
from llguidance import LLMatcher

from inference.protocol.tools import FORMATS, FormatName
from streaming.grammars import CallGrammar, MarkTokens, _bytes_tokenizer, output_grammar, problem_with

CITY: dict[str, Any] = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
COUNT = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
CITY |= {"additionalProperties": False}


def calls_in(form: FormatName) -> CallGrammar:
    return CallGrammar(FORMATS[form], {"city": CITY, "count": COUNT}, MarkTokens())


def allows(grammar: str, text: str) -> bool:
    """Say whether a text can be written, and can end there."""
    assert problem_with(grammar) == ""
    matcher = LLMatcher(_bytes_tokenizer(), grammar, log_level=0)
    token_ids = list(text.encode())
    return matcher.try_consume_tokens(token_ids) == len(token_ids) and matcher.is_accepting()


def call(form: FormatName, *calls: tuple[str, Any]) -> str:
    written = [json.dumps({"name": name, FORMATS[form].arguments[0]: given}) for name, given in calls]
    if form == "hermes":
        return "\n".join(f"<tool_call>\n{each}\n</tool_call>" for each in written)
    if form == "mistral":
        return f"[TOOL_CALLS] [{', '.join(written)}]"
    if form == "mistral_named":
        return "".join(f"[TOOL_CALLS]{name}[ARGS]{json.dumps(given)}" for name, given in calls)
    return "; ".join(written)


PARIS = ("city", {"city": "Paris"})
SEVEN = ("count", {"n": 7})
WRONG = ("count", {"city": "Paris"})
FORMS = pytest.mark.parametrize("form", list(FORMATS))


@FORMS
def test_it_works(form: FormatName) -> None:
    grammar = calls_in(form).forced(parallel=True)
    assert allows(grammar, call(form, PARIS))
    assert not allows(grammar, call(form, WRONG))
    assert not allows(grammar, call(form, ("other", {})))
    assert not allows(grammar, "Hello")
    assert not allows(grammar, "")


@FORMS
def test_one_call_or_several(form: FormatName) -> None:
    several = form != "llama3"  # its template takes one at a time
    assert allows(calls_in(form).forced(parallel=True), call(form, PARIS, SEVEN)) == several
    assert not allows(calls_in(form).forced(parallel=False), call(form, PARIS, SEVEN))


@FORMS
def test_free_text_with_calls_in_it(form: FormatName) -> None:
    grammar = calls_in(form).free(parallel=True)
    assert allows(grammar, "")
    assert allows(grammar, "Hello < [world] {é😀}\n")
    assert allows(grammar, call(form, PARIS))
    assert not allows(grammar, call(form, WRONG))
    if form != "llama3":
        assert allows(grammar, "Hello " + call(form, SEVEN))
        assert not allows(grammar, "Hello " + call(form, WRONG))


def test_json_that_only_looks_like_a_call_is_free_text() -> None:
    grammar = calls_in("llama3").free(parallel=True)
    assert allows(grammar, '{"name": "Bob", "parameters": 7}')
    assert allows(grammar, '{"answer": 42} is it')


def test_text_may_go_on_after_a_call_where_there_can_be_another() -> None:
    text = f"Hello {call('hermes', PARIS)} and {call('hermes', SEVEN)} end"
    assert allows(calls_in("hermes").free(parallel=True), text)
    assert not allows(calls_in("hermes").free(parallel=False), text)


@FORMS
def test_calls_or_an_answer_of_a_schema(form: FormatName) -> None:
    grammar = calls_in(form).forced(parallel=True, output=COUNT)
    mark = FORMATS[form].opening if FORMATS[form].bare else ""  # else it could be the beginning of either
    assert allows(grammar, mark + call(form, PARIS))
    assert allows(grammar, '{"n": 7}')
    assert not allows(grammar, '{"city": "Paris"}')
    assert not allows(grammar, "seven")


@FORMS
def test_no_calls(form: FormatName) -> None:
    grammar = calls_in(form).none()
    assert allows(grammar, "Hello <tool [TOOL")
    assert not allows(grammar, f"Hello {FORMATS[form].opening}")


def test_json_is_on_one_line() -> None:
    grammar = output_grammar(COUNT)
    assert allows(grammar, '{"n": 7}')
    assert not allows(grammar, '{"n":7}')
    assert not allows(grammar, '{\n"n": 7}')
    assert not allows(grammar, ' {"n": 7}')


def test_definitions_are_found_in_a_schema_that_is_part_of_a_grammar() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"a": {"$ref": "#/$defs/b"}}, "required": ["a"]}
    schema |= {"$defs": {"b": {"enum": ["x"]}}, "additionalProperties": False}
    grammar = CallGrammar(FORMATS["hermes"], {"f": schema}, MarkTokens()).forced(parallel=False)
    assert allows(grammar, call("hermes", ("f", {"a": "x"})))
    assert not allows(grammar, call("hermes", ("f", {"a": "y"})))


def test_marks_that_are_tokens_are_named_by_their_ids() -> None:
    added = [
        {"id": 7, "content": "[TOOL_CALLS]", "special": True},
        {"id": 8, "content": "<think>", "special": False},
        {"id": 9, "content": "<tool_call>", "special": False},
        {"id": 10, "content": "   ", "special": False},
    ]
    tokens = MarkTokens.of(added)
    assert tokens == MarkTokens({"[TOOL_CALLS]": 7, "<think>": 8, "<tool_call>": 9}, {"<think>": 8, "<tool_call>": 9})
    grammar = CallGrammar(FORMATS["hermes"], {"f": CITY}, tokens).free(parallel=True)
    assert "text <[9]>" in grammar
    assert "shown: <[8]>" in grammar
    assert "<[7]>" in CallGrammar(FORMATS["mistral"], {"f": CITY}, tokens).forced(parallel=True)


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({"type": "integer", "minimum": 2, "maximum": 1}, "Unsatisfiable schema"),
        ({"type": "string", "pattern": "(?=a)b"}, "regex parse error: (?=a)b ^^^ error: look-around"),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}, "nothing fits it"),
        ({"type": "integer", "multipleOf": 999_983, "minimum": 1}, "fuel exhausted"),
        ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, "oneOf constraints are not supported"),
    ],
)
def test_it_says_what_nothing_can_be_held_to(schema: dict[str, Any], problem: str) -> None:
    assert problem_with(output_grammar(schema)).startswith(problem)
