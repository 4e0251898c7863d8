"""JSON, one character at a time."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.toolcalls.json_walker import LONGEST_NUMBER, MAX_DEPTH, JsonWalker, NotJson

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
values = st.recursive(scalars, lambda v: st.lists(v, max_size=4) | st.dictionaries(st.text(), v, max_size=4))
objects = st.dictionaries(st.text(), values, max_size=4)

thorough = settings(max_examples=300)


def walk(text: str) -> JsonWalker:
    walker = JsonWalker()
    for character in text:
        assert not walker.done, "nothing follows the end"
        walker.push(character)
    return walker


def accepts(text: str) -> bool:
    try:
        return walk(text).done
    except (NotJson, AssertionError):
        return False


@thorough
@given(objects, st.booleans(), st.sampled_from([None, 1, "\t"]))
def test_it_works(value: dict[str, Any], ascii_only: bool, indent: int | str | None) -> None:
    walker = walk(json.dumps(value, ensure_ascii=ascii_only, indent=indent))
    assert (walker.done, walker.depth) == (True, 0)


@thorough
@given(objects, st.data())
def test_it_says_what_the_standard_library_says(value: dict[str, Any], data: st.DataObject) -> None:
    text = list(json.dumps(value))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(text) - 1))
        text[place] = data.draw(st.sampled_from(['"', "\\", "{", "}", "[", "]", ",", ":", "0", "e", "-", "n", " ", ""]))
    broken = "".join(text)
    try:
        expected = isinstance(json.loads(broken), dict | list) and broken[-1:] in ("}", "]")
    except ValueError:
        expected = False
    assert accepts(broken) == expected


def test_it_tells_the_outermost_members() -> None:
    walker = walk('{"name": "f\\"g", "arguments": {"name": "inner"')
    assert (walker.key, walker.value) == ("arguments", None)
    walker = walk('{"name": "f\\"g"')
    assert (walker.key, walker.value) == ("name", 'f\\"g')


@pytest.mark.parametrize(
    "text",
    [
        '"text"', "1", "null", "}", "[}", '{"a"]', "{1", '{"a" 1', "[1 2", "[01]", "[1.]", "[.5]", "[nul]", "[nan",
        "[Infinity", '["\x01', '["\\x', '["\\u00g', "[" * (MAX_DEPTH + 1), "[" + "1" * (LONGEST_NUMBER + 1), "[truely",
    ],
)  # fmt: skip
def test_it_stops_at_the_first_wrong_character(text: str) -> None:
    with pytest.raises(NotJson):
        walk(text)
