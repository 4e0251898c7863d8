"""From token ids to events."""

from __future__ import annotations

import pytest
from tokenizers import Tokenizer

from inference.detokenizer import Vocabulary
from inference.engines.base import StepOutput
from inference.generation import Generation
from inference.protocol.progress import Progress, progress_of
from inference.protocol.reports import Settlement, common_of
from tests.inference.logs import Log, byte_tokenizer, feed


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    return byte_tokenizer()


@pytest.fixture(scope="session")
def vocabulary(tokenizer: Tokenizer) -> Vocabulary:
    return Vocabulary(tokenizer)


def settlement_of(generation: Generation) -> Settlement:
    return generation.settlement(common_of(generation.request), "w")


@pytest.fixture
def log(tokenizer: Tokenizer, vocabulary: Vocabulary) -> Log:
    return Log(tokenizer, vocabulary)


def test_it_works(log: Log) -> None:
    generation = log.generation()
    log.say(generation, "Hey", finish="end_of_text")
    assert log.text == "Hey"
    assert log.kinds == ["start", "stop", "message_delta", "message_stop"]
    assert log.events[-2]["delta"]["stop_reason"] == "end_turn"
    assert log.events[-2]["usage"] == {"input_tokens": 3, "output_tokens": 3}
    settlement = settlement_of(generation)
    assert (settlement.outcome, settlement.output_tokens, settlement.queue_ms) == ("end_turn", 3, 5.0)


def test_a_character_is_never_cut(log: Log) -> None:
    log.say(log.generation(), "é🙂", finish="max_tokens")
    assert [e["delta"]["text"] for e in log.events if e["type"] == "content_block_delta"] == ["é", "🙂"]
    assert log.events[-2]["usage"]["output_tokens"] == 6


def test_an_incomplete_character_at_the_end_is_dropped_but_billed(log: Log) -> None:
    generation = log.generation()
    feed(generation, StepOutput("msg_1", log.ids("a🙂")[:3], "max_tokens"))
    log.drain(generation)
    assert log.text == "a"
    assert log.events[-2]["usage"]["output_tokens"] == 3


def test_an_empty_answer_has_no_block(log: Log) -> None:
    generation = log.generation()
    feed(generation, StepOutput("msg_1", (), "end_of_text"))
    log.drain(generation)
    assert log.kinds == ["message_delta", "message_stop"]
    assert settlement_of(generation).output_tokens == 0


def test_a_stop_string_ends_it_and_no_part_of_it_leaves(log: Log) -> None:
    generation = log.generation(stop_sequences=("END",))
    log.say(generation, "it is EN END of it")
    assert log.text == "it is EN "
    assert log.events[-2]["delta"] == {"stop_reason": "stop_sequence", "stop_sequence": "END"}
    assert generation.outcome == "stop_sequence"
    assert settlement_of(generation).output_tokens == len("it is EN ")


def test_a_held_beginning_leaves_at_the_end(log: Log) -> None:
    log.say(log.generation(stop_sequences=("END",)), "it is EN", finish="end_of_text")
    assert log.text == "it is EN"


def test_a_stop_string_that_ends_with_the_text_is_a_stop_string(log: Log) -> None:
    generation = log.generation(stop_sequences=("END", "ENDLESS"))
    log.say(generation, "the END", finish="end_of_text")
    assert log.text == "the "
    assert log.events[-2]["delta"] == {"stop_reason": "stop_sequence", "stop_sequence": "END"}
    assert generation.outcome == "stop_sequence"


def test_a_cancel_closes_the_block(log: Log) -> None:
    generation = log.generation()
    log.say(generation, "He")
    generation.cancel("client_gone")
    log.drain(generation)
    assert log.kinds == ["start", "stop", "message_delta", "message_stop"]
    assert log.events[-2]["delta"]["stop_reason"] == "cancelled"
    assert settlement_of(generation).outcome == "client_gone"


def test_an_engine_error_is_typed_and_comes_last(log: Log) -> None:
    generation = log.generation()
    log.say(generation, "He")
    feed(generation, StepOutput("msg_1", (), "error", "It broke."))
    log.drain(generation)
    assert log.kinds == ["start", "stop", "error"]
    assert log.events[-1]["error"] == {"type": "api_error", "message": "It broke."}
    assert generation.outcome == "error"


@pytest.mark.parametrize("cut", range(1, 24))
def test_another_worker_goes_on_after_any_token(log: Log, cut: int) -> None:
    text, stops = "Hé 🙂 EN and EN!? over", ("ENOUGH", "!?#")
    log.say(log.generation(stop_sequences=stops), text)
    whole = log.text
    first = Log(log.tokenizer, log.vocabulary)
    dying = first.generation(stop_sequences=stops)
    for token_id in log.ids(text)[:cut]:
        feed(dying, StepOutput("msg_1", (token_id,)))
        first.drain(dying)
    heir = first.generation(attempt=2, stop_sequences=stops)
    released = heir.released
    for token_id in log.ids(text)[released:]:
        feed(heir, StepOutput("msg_1", (token_id,)))
        first.drain(heir)
    feed(heir, StepOutput("msg_1", (), "end_of_text"))
    first.drain(heir)
    assert first.text.startswith(whole)
    assert first.text == text
    assert [int(entry_id.partition(b"-")[0]) for entry_id, _ in first.entries] == list(range(2, len(first.entries) + 2))
    assert first.kinds == ["start", "stop", "message_delta", "message_stop"]
    assert settlement_of(heir).output_tokens == len(log.ids(text))


def test_a_log_that_has_its_end_is_only_settled(log: Log) -> None:
    log.say(log.generation(), "Hey", finish="max_tokens")
    heir = log.generation(attempt=2)
    assert heir.outcome == "max_tokens"
    assert settlement_of(heir).output_tokens == 3


def test_progress_is_what_the_log_says() -> None:
    assert progress_of([]) == Progress(last_id=0)


def test_a_batch_that_was_refused_comes_first_again(log: Log) -> None:
    generation = log.generation()
    feed(generation, StepOutput("msg_1", log.ids("a")))
    assert generation.put_back(generation.take()) == 0
    feed(generation, StepOutput("msg_1", log.ids("b"), "end_of_text"))
    assert generation.put_back(batch := generation.take()) > 0
    assert (batch.first_id, batch.outcome, batch.deltas) == (2, "end_turn", 2)
    log.drain(generation)
    assert log.text == "ab"


def test_it_is_due_for_news_and_now_and_then(log: Log) -> None:
    generation = log.generation()
    due = [generation.is_due]
    generation.take()
    due.append(generation.is_due)
    feed(generation, StepOutput("msg_1", log.ids("a")))
    assert [*due, generation.is_due] == [True, False, True]
