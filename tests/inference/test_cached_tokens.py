"""What a client and a record are told of the prefix cache."""

from __future__ import annotations

from tokenizers import Tokenizer

from inference.engines.base import StepOutput
from tests.inference.tools import Bench, a_request, enqueue


def test_it_works(bench: Bench, words: Tokenizer) -> None:
    one, two = words.encode("one two").ids
    enqueue(bench.store, a_request())
    bench.turn()
    bench.turn(StepOutput("msg_1", (one,), cached_tokens=2))
    bench.turn(StepOutput("msg_1", (two,), "max_tokens", cached_tokens=2))

    assert bench.events()[-2]["usage"] == {"input_tokens": 1, "cache_read_input_tokens": 2, "output_tokens": 2}
    (settlement,) = bench.settlements()
    assert (settlement.input_tokens, settlement.cached_tokens) == (3, 2), "the record has the whole prompt"


def test_nothing_is_said_where_nothing_was_cached(bench: Bench) -> None:
    enqueue(bench.store, a_request())
    bench.turn()
    bench.turn(StepOutput("msg_1", (), "end_of_text"))

    assert bench.events()[-2]["usage"] == {"input_tokens": 3, "output_tokens": 0}
    assert bench.settlements()[0].cached_tokens == 0


def test_an_heir_that_only_settles_knows_it_from_the_log(bench: Bench) -> None:
    enqueue(bench.store, a_request())
    bench.turn()
    bench.crash_before_settling(StepOutput("msg_1", (), "end_of_text", cached_tokens=2))
    bench.lapse()
    bench.another().turn()

    assert [settlement.cached_tokens for settlement in bench.settlements()] == [2]


def test_an_heir_that_goes_on_says_what_its_own_cache_had(bench: Bench, words: Tokenizer) -> None:
    one, two = words.encode("one two").ids
    enqueue(bench.store, a_request())
    bench.turn()
    bench.turn(StepOutput("msg_1", (one,), cached_tokens=2))
    bench.lapse()
    heir = bench.another()
    heir.turn()
    heir.turn(StepOutput("msg_1", (two,), "max_tokens"))

    assert heir.events()[-2]["usage"] == {"input_tokens": 3, "output_tokens": 2}
    assert [settlement.cached_tokens for settlement in heir.settlements()] == [0]


def test_the_engine_is_told_whose_turn_it_is(bench: Bench) -> None:
    enqueue(bench.store, a_request(priority="batch"))
    bench.age(seconds=20)
    bench.turn()
    (request,) = bench.engine.submitted
    assert (request.priority, request.salt) == ("batch", "org_1")
    assert 20 <= request.waited_s < 30
