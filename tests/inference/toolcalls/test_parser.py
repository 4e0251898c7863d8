"""Text and calls, told apart."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.protocol.tools import FORMATS, FormatName, ToolUse
from inference.text import Piece
from inference.toolcalls.parser import NoCalls, ToolCalls

NAMES = ("get_weather", "get_time", "f")
thorough = settings(max_examples=200)


@dataclass
class Call:
    """A call as it was read."""

    name: str
    input: str = ""
    ended: bool = False


Block = str | Call


def blocks_of(pieces: list[Piece]) -> list[Block]:
    blocks: list[Block] = []
    for kind, text in (part for piece in pieces for part in piece.parts()):
        last = blocks[-1] if blocks else None
        if kind == "text" and isinstance(last, str):
            blocks[-1] = last + text
        elif kind == "text" and text:
            blocks.append(text)
        elif kind == "start":
            blocks.append(Call(text))
        elif kind == "input":
            assert isinstance(last, Call)
            last.input += text
        elif kind == "end":
            assert isinstance(last, Call)
            last.ended = True
    return blocks


def reader(form: FormatName = "hermes", **more: Any) -> ToolCalls:
    return ToolCalls(ToolUse(format=form, names=NAMES, **more))


def read(text: str | list[str], form: FormatName = "hermes", *, cut: bool = False, **more: Any) -> list[Block]:
    """Read a text that comes in parts, a token each; as a whole where it is one string."""
    calls, pieces = reader(form, **more), []
    parts = [text] if isinstance(text, str) else text
    for number, part in enumerate(parts):
        pieces += calls.push(Piece((number,), part))
    pieces += calls.flush(cut=cut)
    token_ids = [token_id for piece in pieces for token_id in piece.token_ids]
    assert token_ids == list(range(len(parts))), "each token leaves once, in order"
    return blocks_of(pieces)


def hermes(name: str, arguments: Any, between: str = "\n") -> str:
    return f"<tool_call>{between}{json.dumps({'name': name, 'arguments': arguments})}{between}</tool_call>"


def whole(name: str, arguments: Any) -> Call:
    return Call(name, json.dumps(arguments), ended=True)


PARIS = {"city": "Paris", "days": [1, 2], "more": {"unit": "C"}}


def test_it_works() -> None:
    text = f"Let me look.\n\n{hermes('get_weather', PARIS)}\n{hermes('get_time', {})}\nThat was it.\n"
    assert read(text) == ["Let me look.", whole("get_weather", PARIS), whole("get_time", {}), "That was it.\n"]


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("llama3", '{"name": "f", "parameters": {"a": 1}}'),
        ("llama3", ' {"type": "function", "name": "f", "parameters": {"a": 1}}\n'),
        ("llama3", '<|python_tag|>{"name": "f", "parameters": {"a": 1}}'),
        ("llama3", '{"name": "f", "arguments": {"a": 1}}'),
        ("mistral", '[TOOL_CALLS] [{"name": "f", "arguments": {"a": 1}}]'),
        ("mistral", '[TOOL_CALLS][{"name": "f", "arguments": {"a": 1}, "id": "abcdefghi"}]'),
        ("mistral", '[TOOL_CALLS] [{"arguments": {"a": 1}, "name": "f"}]'),
        ("mistral_named", '[TOOL_CALLS]f[ARGS]{"a": 1}'),
        ("mistral_named", '[TOOL_CALLS]f[CALL_ID]abcdefghi[ARGS]{"a": 1}'),
        ("mistral_named", '[TOOL_CALLS]f{"a": 1}'),
        ("hermes", '<tool_call>{"arguments": {"a": 1}, "name": "f"}</tool_call>'),
        ("hermes", '<tool_call>\n{"name": "f", "why": ["x"], "arguments": {"a": 1}}'),
    ],
)
def test_each_format(form: FormatName, text: str) -> None:
    assert read(text, form) == [whole("f", {"a": 1})]
    assert read(list(text), form) == [whole("f", {"a": 1})]


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("llama3", '{"name": "f", "parameters": {}}; {"name": "get_time", "parameters": {"a": 1}}'),
        ("mistral", '[TOOL_CALLS] [{"name": "f", "arguments": {}}, {"name": "get_time", "arguments": {"a": 1}}]'),
        ("mistral_named", '[TOOL_CALLS]f[ARGS]{}[TOOL_CALLS]get_time[ARGS]{"a": 1}'),
        ("hermes", hermes("f", {}) + hermes("get_time", {"a": 1}, between="")),
    ],
)
def test_several_calls(form: FormatName, text: str) -> None:
    assert read(text, form) == [whole("f", {}), whole("get_time", {"a": 1})]
    assert read(text, form, parallel=False) == [whole("f", {})]


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("hermes", "a < b and <tool and </tool_call> and <tool_calls>"),
        ("hermes", "<tool_call>\nnot JSON\n</tool_call> and on"),
        ("hermes", hermes("no_such_tool", {"a": 1})),
        ("hermes", '<tool_call>{"name": "f", "arguments": "text"}</tool_call>'),
        ("hermes", '<tool_call>{"arguments": {}}</tool_call>'),
        ("hermes", '<tool_call>{"name": "f", "argu'),
        ("llama3", '{"answer": 42} is it'),
        ("llama3", '{"name": "f", "age": 7}'),
        ("llama3", '{"name": "f"}'),
        ("llama3", 'So: {"name": "f", "parameters": {}}'),
        ("mistral", "[TOOL_CALLS] is a mark"),
        ("mistral_named", "[TOOL_CALLS]no_such_tool[ARGS]{}"),
        ("mistral_named", '[TOOL_CALLS]f[OTHER]{"a": 1}'),
    ],
)
def test_what_is_no_call_of_ours_stays_text(form: FormatName, text: str) -> None:
    assert read(text, form) == [text]
    assert read(list(text), form) == [text]


def test_a_call_after_one_that_is_none() -> None:
    assert read("<tool_call>" + hermes("f", {})) == ["<tool_call>", whole("f", {})]
    assert read('<tool_call>{"name": "x"' + hermes("f", {})) == ['<tool_call>{"name": "x"', whole("f", {})]


def test_text_is_not_delayed_and_marks_are() -> None:
    calls = reader()
    assert [piece.text for piece in calls.push(Piece((0,), "Hello"))] == ["Hello"]
    assert [piece.text for piece in calls.push(Piece((1,), " world"))] == [" world"]
    assert calls.push(Piece((2,), " <tool")) == []
    assert [piece.text for piece in calls.push(Piece((3,), "box>"))] == [" <tool", "box>"]


def test_the_input_is_told_as_it_is_written() -> None:
    calls = reader()
    calls.push(Piece((0,), '<tool_call>{"name": "f", "arguments": '))
    told = [
        [part for part in piece.parts() if part[1]]
        for part in ('{"a"', ": 1", "}")
        for piece in calls.push(Piece((1,), part))
    ]
    assert told[-3:] == [[("start", "f"), ("input", '{"a"')], [("input", ": 1")], [("input", "}")]]


def test_a_call_that_turns_out_to_be_no_json_is_broken() -> None:
    calls = reader()
    pieces = calls.push(Piece((0,), '<tool_call>{"name": "f", "arguments": {"a": tru e}}'))
    assert (calls.over, calls.broken, calls.num_ended) == (True, True, 0)
    assert blocks_of(pieces) == [Call("f", '{"a": tru')]


def test_a_call_whose_text_ended_is_broken_and_one_that_was_cut_is_not() -> None:
    for cut in (True, False):
        calls = reader()
        calls.push(Piece((0,), '<tool_call>{"name": "f", "arguments": {"a"'))
        calls.flush(cut=cut)
        assert calls.broken is not cut


def test_the_beginning_of_a_call_that_was_cut_is_left_out() -> None:
    assert read('Hi <tool_call>\n{"name": "get_w', cut=True) == ["Hi"]
    assert read(hermes("f", {}) + '\n<tool_call>\n{"name": "get_w', cut=True) == [whole("f", {})]
    assert read('{"name": "f", "par', "llama3", cut=True) == ['{"name": "f", "par']


def test_without_parallel_calls_the_first_ends_it() -> None:
    calls = reader(parallel=False)
    pieces = calls.push(Piece((0,), "Hi " + hermes("f", {"a": 1}) + " and " + hermes("f", {})))
    assert (calls.over, calls.broken, calls.num_ended) == (True, False, 1)
    assert blocks_of(pieces) == ["Hi", whole("f", {"a": 1})]


def test_without_tools_all_is_text() -> None:
    piece = Piece((0,), hermes("f", {}))
    assert NoCalls().push(piece) == [piece]


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.just("</tool_call><tool_call>[ARGS]"),
    lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text(max_size=4), v, max_size=3),
    max_leaves=6,
)
arguments = st.dictionaries(st.text(max_size=6), values, max_size=3)
calls_made = st.lists(st.tuples(st.sampled_from(NAMES), arguments), min_size=1, max_size=3)
prose = st.text(st.sampled_from("ab <>tol_c\n/.é😀"), max_size=20).filter(lambda text: "<tool_call>" not in text)


def written(form: FormatName, calls: list[tuple[str, Any]]) -> str:
    key = FORMATS[form].arguments[0]
    objects = [json.dumps({"name": name, key: given}, ensure_ascii=False) for name, given in calls]
    if form == "hermes":
        return "\n".join(f"<tool_call>\n{each}\n</tool_call>" for each in objects)
    if form == "llama3":
        return "<|python_tag|>" + "; ".join(objects)
    if form == "mistral":
        return f"[TOOL_CALLS] [{', '.join(objects)}]"
    return "".join(f"[TOOL_CALLS]{name}[ARGS]{json.dumps(given, ensure_ascii=False)}" for name, given in calls)


def split(text: str, data: st.DataObject) -> list[str]:
    edges = data.draw(st.lists(st.integers(0, len(text)), max_size=30))
    return [text[start:end] for start, end in pairwise(sorted([0, len(text), *edges]))]


@thorough
@given(st.sampled_from(list(FORMATS)), prose, calls_made, st.data())
def test_any_split_gives_the_blocks_of_the_whole(
    form: FormatName, before: str, made: list[tuple[str, Any]], data: st.DataObject
) -> None:
    text = before + written(form, made)
    blocks = read(text, form)
    assert read(split(text, data), form) == blocks
    assert read(list(text), form) == blocks

    said = [before.rstrip(" \n")] if before.strip(" \n") else []
    expected = [Call(name, json.dumps(given, ensure_ascii=False), ended=True) for name, given in made]
    assert blocks == [*said, *expected], "no mark leaks, and each input is the object as it was written"


@thorough
@given(
    st.sampled_from(list(FORMATS)),
    st.text(st.sampled_from(list('<tool_ca>/[TOLCS]|pyhngARG{}": ,f\n')), max_size=40),
    st.data(),
)
def test_any_text_at_all_is_told_and_in_the_same_way(form: FormatName, text: str, data: st.DataObject) -> None:
    assert read(split(text, data), form) == read(text, form)
