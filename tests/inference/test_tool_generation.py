"""From token ids to events, with tool calls among them."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models

from inference.detokenizer import Vocabulary
from inference.engines.base import StepOutput
from inference.generation import Generation
from inference.protocol.tools import ToolUse
from tests.inference.logs import Log, byte_tokenizer, feed

TOOLS = ToolUse(format="hermes", names=("f", "get_weather"))
ONE = ToolUse(format="hermes", names=("f", "get_weather"), parallel=False)


def call(name: str, arguments: Any) -> str:
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments}, ensure_ascii=False)}\n</tool_call>"


PARIS = {"city": "Paris é", "days": [1, 2]}
TWO_CALLS = f"Let me é look.\n{call('get_weather', PARIS)}\n{call('f', {})}\nDone."


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    return byte_tokenizer()


@pytest.fixture
def log(tokenizer: Tokenizer) -> Log:
    return Log(tokenizer, Vocabulary(tokenizer))


def content_of(log: Log) -> list[Any]:
    """Put the blocks together: text, or (name, JSON of the input, whether it is closed)."""
    content: list[Any] = []
    for event in log.events:
        if event["type"] == "content_block_start":
            block = event["content_block"]
            content.append("" if block["type"] == "text" else (block["name"], "", False))
        elif event["type"] == "content_block_delta" and event["delta"]["type"] == "text_delta":
            content[event["index"]] += event["delta"]["text"]
        elif event["type"] == "content_block_delta":
            name, written, closed = content[event["index"]]
            content[event["index"]] = (name, written + event["delta"]["partial_json"], closed)
        elif event["type"] == "content_block_stop" and not isinstance(content[event["index"]], str):
            content[event["index"]] = (*content[event["index"]][:2], True)
    return content


def whole(name: str, arguments: Any) -> tuple[str, str, bool]:
    return name, json.dumps(arguments, ensure_ascii=False), True


def test_it_works(log: Log) -> None:
    generation = log.generation(tools=TOOLS)
    log.say(generation, TWO_CALLS, finish="end_of_text")
    assert content_of(log) == ["Let me é look.", whole("get_weather", PARIS), whole("f", {}), "Done."]
    assert log.kinds == ["start", "stop"] * 4 + ["message_delta", "message_stop"]
    assert log.events[-2]["delta"]["stop_reason"] == "tool_use"
    assert log.events[-2]["usage"]["output_tokens"] == len(TWO_CALLS.encode())
    assert generation.outcome == "tool_use"


def test_the_input_streams(log: Log) -> None:
    log.say(log.generation(tools=TOOLS), call("get_weather", PARIS), finish="end_of_text")
    fragments = [e["delta"]["partial_json"] for e in log.events if e["type"] == "content_block_delta"]
    assert len(fragments) > 10
    assert "" not in fragments
    assert json.loads("".join(fragments)) == PARIS


def test_calls_have_ids_that_another_attempt_would_give_them(log: Log) -> None:
    log.say(log.generation(tools=TOOLS), TWO_CALLS, finish="end_of_text")
    again = Log(log.tokenizer, log.vocabulary)
    again.say(again.generation(attempt=2, tools=TOOLS), TWO_CALLS, finish="end_of_text")
    first, second = (
        [e["content_block"].get("id") for e in each.events if "content_block" in e] for each in (log, again)
    )
    assert first == second
    assert len(set(first)) == 3
    assert all(each is None or each.startswith("toolu_") for each in first)


def test_without_tools_it_is_text(log: Log) -> None:
    log.say(log.generation(), call("f", {}), finish="end_of_text")
    assert content_of(log) == [call("f", {})]
    assert log.events[-2]["delta"]["stop_reason"] == "end_turn"


def test_without_parallel_calls_the_first_ends_the_message(log: Log) -> None:
    generation = log.generation(tools=ONE)
    log.say(generation, TWO_CALLS)
    assert content_of(log) == ["Let me é look.", whole("get_weather", PARIS)]
    assert (generation.outcome, log.events[-2]["delta"]["stop_reason"]) == ("tool_use", "tool_use")


def test_a_limit_closes_the_call(log: Log) -> None:
    log.say(log.generation(tools=TOOLS), call("f", {"a": 1}).partition("}")[0], finish="max_tokens")
    assert content_of(log) == [("f", '{"a": 1', True)]
    assert log.kinds == ["start", "stop", "message_delta", "message_stop"]
    assert log.events[-2]["delta"]["stop_reason"] == "max_tokens"


def test_a_limit_in_the_head_of_a_call_shows_nothing_of_it(log: Log) -> None:
    log.say(log.generation(tools=TOOLS), 'Hi <tool_call>\n{"name": "get', finish="max_tokens")
    assert content_of(log) == ["Hi"]
    assert log.events[-2]["usage"]["output_tokens"] == len('Hi <tool_call>\n{"name": "get')


@pytest.mark.parametrize("end", ["cancel", "fail", "engine"])
def test_a_call_that_is_cut_stays_open_and_an_error_follows(log: Log, end: str) -> None:
    generation = log.generation(tools=TOOLS)
    log.say(generation, '<tool_call>\n{"name": "f", "arguments": {"a"')
    if end == "cancel":
        generation.cancel("client_gone")
    elif end == "fail":
        generation.fail("timeout", kind="timeout_error", message="Too long.")
    else:
        feed(generation, StepOutput("msg_1", (), "error", "It broke."))
    log.drain(generation)
    assert log.kinds == ["start", "error"]
    assert content_of(log) == [("f", '{"a"', False)]
    assert generation.outcome == {"cancel": "client_gone", "fail": "timeout", "engine": "error"}[end]


def test_a_cancel_between_calls_is_as_in_text(log: Log) -> None:
    generation = log.generation(tools=TOOLS)
    log.say(generation, call("f", {}))
    generation.cancel("cancelled")
    log.drain(generation)
    assert log.kinds == ["start", "stop", "message_delta", "message_stop"]


@pytest.mark.parametrize("text", ['{"a": tru e}', '{"a"'])
def test_a_call_that_is_no_json_is_an_error(log: Log, text: str) -> None:
    generation = log.generation(tools=TOOLS)
    log.say(generation, f'Hi\n<tool_call>{{"name": "f", "arguments": {text}', finish="end_of_text")
    assert log.kinds == ["start", "stop", "start", "error"]
    assert "not valid JSON" in log.events[-1]["error"]["message"]
    assert generation.outcome == "error"


def test_stop_strings_look_at_text_alone(log: Log) -> None:
    text = f"a {call('f', {'a': 'STOP'})} b STOP c"
    log.say(log.generation(tools=TOOLS, stop_sequences=("STOP", "\n{")), text)
    assert content_of(log) == ["a", whole("f", {"a": "STOP"}), "b "]
    assert log.events[-2]["delta"] == {"stop_reason": "stop_sequence", "stop_sequence": "STOP"}


def test_a_beginning_of_a_stop_string_does_not_wait_for_what_comes_after_a_call(log: Log) -> None:
    log.say(log.generation(tools=TOOLS, stop_sequences=("abc",)), f"ab{call('f', {})}c", finish="end_of_text")
    assert content_of(log) == ["ab", whole("f", {}), "c"]


def test_marks_that_are_special_tokens_are_seen(log: Log) -> None:
    tokenizer = byte_tokenizer()
    tokenizer.add_special_tokens([AddedToken("[TOOL_CALLS]", special=True), AddedToken("[INST]", special=True)])
    log = Log(tokenizer, Vocabulary(tokenizer))
    text = 'Hé[INST][TOOL_CALLS] [{"name": "f", "arguments": {}}]'
    log.say(log.generation(tools=ToolUse(format="mistral", names=("f",))), text, finish="end_of_text")
    assert content_of(log) == ["Hé", whole("f", {})]
    plain = Log(tokenizer, log.vocabulary)
    plain.say(plain.generation(), text, finish="end_of_text")
    assert content_of(plain) == ['Hé [{"name": "f", "arguments": {}}]']


def continued(log: Log, text: str, cut: int, **changes: Any) -> Log:
    """Let an attempt die after `cut` tokens, and another go on after what it has released."""
    first = Log(log.tokenizer, log.vocabulary)
    dying, token_ids = first.generation(**changes), log.ids(text)
    for token_id in token_ids[:cut]:
        feed(dying, StepOutput("msg_1", (token_id,)))
        first.drain(dying)
    heir = first.generation(attempt=2, **changes)
    for token_id in token_ids[heir.released :]:
        feed(heir, StepOutput("msg_1", (token_id,)))
        first.drain(heir)
    feed(heir, StepOutput("msg_1", (), "end_of_text"))
    first.drain(heir)
    return first


@pytest.mark.parametrize("cut", range(len(TWO_CALLS.encode()) + 1))
def test_another_worker_goes_on_after_any_token(log: Log, cut: int) -> None:
    changes: dict[str, Any] = {"tools": TOOLS, "stop_sequences": ("look. You", "ne!")}
    generation = log.generation(**changes)
    log.say(generation, TWO_CALLS)
    feed(generation, StepOutput("msg_1", (), "end_of_text"))
    log.drain(generation)
    assert continued(log, TWO_CALLS, cut, **changes).entries == log.entries


class Tokens(Log):
    """A log over a vocabulary that a test makes up: the parts of a text."""

    def __init__(self, parts: list[str]) -> None:
        alphabet = {byte: letter for letter, byte in zip(*_byte_alphabet(), strict=True)}
        names = ["".join(alphabet[byte] for byte in part.encode()) for part in parts]
        ids = {name: number for number, name in enumerate(dict.fromkeys(names))}
        tokenizer = Tokenizer(models.BPE(ids, []))
        tokenizer.decoder = decoders.ByteLevel()
        super().__init__(tokenizer, Vocabulary(tokenizer))
        self.token_ids = tuple(ids[name] for name in names)

    def run(self, generation: Generation, steps: list[tuple[int, ...]]) -> None:
        for step in steps:
            if generation.outcome is None:
                feed(generation, StepOutput("msg_1", step))
                self.drain(generation)

    def end(self, generation: Generation) -> None:
        if generation.outcome is None:
            feed(generation, StepOutput("msg_1", (), "end_of_text"))
            self.drain(generation)

    @property
    def released(self) -> list[int]:
        return [int(n) for _, fields in self.entries for n in fields[b"t"].split(b",") if n]


def _byte_alphabet() -> tuple[list[str], list[int]]:
    from inference.detokenizer import _ALPHABET

    return list(_ALPHABET), list(_ALPHABET.values())


arguments = st.dictionaries(st.text(max_size=4), st.integers() | st.text(max_size=6) | st.lists(st.none()), max_size=3)
chunks = st.text("ab é.\n<", max_size=8) | st.builds(call, st.sampled_from(["f", "get_weather", "no_tool"]), arguments)
messages = st.lists(chunks, min_size=1, max_size=5).map("".join).filter(bool)


def in_steps(token_ids: tuple[int, ...], edges: list[int]) -> list[tuple[int, ...]]:
    places = sorted({0, len(token_ids), *(min(edge, len(token_ids)) for edge in edges)})
    return [token_ids[start:end] for start, end in pairwise(places)]


EDGES = st.lists(st.integers(0, 200), max_size=20)


@settings(max_examples=150)
@given(messages, EDGES, EDGES, st.lists(st.sampled_from(["ab", "é.", "\n", '"']), max_size=2), st.booleans(), st.data())
def test_tokens_steps_and_attempts_make_no_difference(
    text: str, cuts: list[int], edges: list[int], stops: list[str], parallel: bool, data: st.DataObject
) -> None:
    places = sorted({0, len(text), *(min(cut, len(text)) for cut in cuts)})
    changes: dict[str, Any] = {"tools": TOOLS if parallel else ONE, "stop_sequences": tuple(stops)}
    log = Tokens([text[start:end] for start, end in pairwise(places)])
    steps = in_steps(log.token_ids, edges)
    generation = log.generation(**changes)
    log.run(generation, steps)
    log.end(generation)

    reference = Tokens([text])
    at_once = reference.generation(**changes)
    reference.run(at_once, [reference.token_ids])
    reference.end(at_once)
    assert content_of(log) == content_of(reference)
    assert log.events[-2].get("delta") == reference.events[-2].get("delta")

    heirs = Tokens([text[start:end] for start, end in pairwise(places)])
    for attempt in range(1, 4):
        generation = heirs.generation(attempt, **changes)
        if generation.outcome is not None:
            break
        rest = in_steps(heirs.token_ids[generation.released :], edges)
        heirs.run(generation, rest if attempt == 3 else rest[: data.draw(st.integers(0, len(rest)))])
    heirs.end(generation)
    assert content_of(heirs) == content_of(log)
    assert heirs.released == log.released == list(log.token_ids[: len(log.released)])
    assert [entry_id for entry_id, _ in heirs.entries] == [b"%d-0" % n for n in range(2, len(heirs.entries) + 2)]
