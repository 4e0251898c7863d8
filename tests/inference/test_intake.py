"""What a worker does with a claim that it shall not, or cannot, run."""

from __future__ import annotations

import pytest
from tokenizers import Tokenizer

from inference.engines.base import StepOutput
from inference.protocol import keys, scripts
from inference.protocol.requests import VERSION
from inference.safety.book import NotReady
from tests.inference.tools import MODEL, Bench, a_request, enqueue


def test_a_request_cancelled_in_the_queue_never_reaches_the_engine(bench: Bench) -> None:
    enqueue(bench.store, a_request())
    bench.store.eval(scripts.CANCEL, 1, keys.meta("msg_1"), "client_gone")
    bench.turn()
    assert bench.submitted == []
    assert bench.outcomes == ["client_gone"]


def test_a_request_that_nobody_reads_any_more_never_reaches_the_engine(bench: Bench) -> None:
    enqueue(bench.store, a_request())
    bench.store.hset(keys.meta("msg_1"), "read_until", 1)
    bench.turn()
    assert bench.submitted == []
    assert bench.outcomes == ["abandoned"]


def test_a_request_cancelled_while_the_engine_lets_it_wait_is_not_computed(bench: Bench) -> None:
    enqueue(bench.store, a_request())
    bench.turn()
    bench.store.eval(scripts.CANCEL, 1, keys.meta("msg_1"), "client_gone")
    bench.turn()
    assert bench.engine.cancelled == ["msg_1"]
    bench.turn()
    assert bench.outcomes == ["client_gone"]


def test_what_waited_too_long_times_out(bench: Bench) -> None:
    enqueue(bench.store, a_request())
    bench.age(seconds=61)
    bench.turn()
    assert bench.events()[-1]["error"]["type"] == "timeout_error"
    assert bench.outcomes == ["timeout"]


@pytest.mark.parametrize("outcome", ["max_tokens", "client_gone", "oom"])
def test_an_heir_settles_what_ended_as_it_ended(bench: Bench, words: Tokenizer, outcome: str) -> None:
    enqueue(bench.store, a_request())
    bench.turn()
    hello = tuple(words.encode("hello").ids)
    if outcome == "client_gone":
        bench.turn(StepOutput("msg_1", hello))
        bench.store.eval(scripts.CANCEL, 1, keys.meta("msg_1"), outcome)
        bench.worker._running["msg_1"]._ask_due = 0
        bench.turn()
        bench.crash_before_settling()
    else:
        bench.crash_before_settling(StepOutput("msg_1", hello, outcome))  # type: ignore[arg-type]
    bench.lapse()
    bench.another().turn()
    assert [(s.outcome, s.output_tokens) for s in bench.settlements()] == [(outcome, 1)]
    assert bench.is_forgotten()


def test_the_wait_of_an_heir_is_that_of_the_first(bench: Bench) -> None:
    enqueue(bench.store, a_request())
    bench.turn()
    bench.lapse()
    bench.age(seconds=100)
    heir = bench.another()
    heir.turn()
    assert heir.submitted == ["msg_1"], "it did not wait so long for a worker"
    heir.turn(StepOutput("msg_1", (), "end_of_text"))
    (settlement,) = heir.settlements()
    assert settlement.queue_ms < 60_000


def test_a_request_that_costs_three_workers_costs_no_more(bench: Bench) -> None:
    enqueue(bench.store, a_request())
    for _ in range(3):
        bench.another().turn()
        bench.lapse()
    bench.turn()
    assert bench.events()[-1]["error"]["type"] == "api_error"
    assert bench.outcomes == ["worker_lost"]


@pytest.mark.parametrize(("lost", "outcome"), [(0, "timeout"), (1, "worker_lost")])
def test_a_log_that_has_expired_is_settled(bench: Bench, lost: int, outcome: str) -> None:
    enqueue(bench.store, a_request())
    if lost:
        bench.another().turn()
        bench.lapse()
    bench.store.delete(keys.log("msg_1"), keys.meta("msg_1"))
    bench.turn()
    assert bench.outcomes == [outcome]


def test_a_request_that_comes_again_after_its_end_does_not_run_again(bench: Bench) -> None:
    enqueue(bench.store, a_request())
    bench.turn()
    bench.turn(StepOutput("msg_1", (), "end_of_text"))
    enqueue(bench.store, a_request())
    bench.turn()
    assert bench.submitted == ["msg_1"]
    assert bench.outcomes == ["end_turn", "end_turn"]
    assert bench.is_forgotten()


def test_a_payload_that_nobody_can_read_is_settled_away(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    enqueue(bench.store, a_request())
    bench.rewrite(prompt_ids=None, texts="a text of mine")
    enqueue(bench.store, a_request("msg_2"))
    bench.turn()
    assert bench.submitted == ["msg_2"]
    assert bench.events()[-1]["error"]["type"] == "api_error"
    assert not bench.store.hexists(keys.payloads(MODEL), "msg_1")
    assert bench.outcomes == ["error"], "its log says enough for a record"
    assert "msg_1: its payload cannot be read" in caplog.text
    assert "of mine" not in caplog.text


def test_a_request_for_newer_workers_is_left_to_them(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    enqueue(bench.store, a_request())
    bench.rewrite(version=VERSION + 1)
    bench.turn()
    bench.turn()
    assert bench.store.zrange(keys.ready(MODEL), 0, -1) == [b"msg_1"]
    assert bench.store.hget(keys.attempts(MODEL), "msg_1") == b"1", "it does not ask again at once"
    bench.rewrite(version=VERSION)  # as a newer worker reads it
    newer = bench.another()
    newer.turn()
    assert newer.submitted == ["msg_1"]


def test_a_request_for_newer_workers_does_not_wait_for_ever(bench: Bench) -> None:
    enqueue(bench.store, a_request())
    bench.rewrite(version=VERSION + 1)
    bench.age(seconds=61)
    bench.turn()
    assert bench.events()[-1]["error"]["type"] == "timeout_error"
    assert bench.outcomes == ["timeout"]
    assert bench.is_forgotten()


def test_a_policy_that_nobody_knows_fails_closed(bench: Bench) -> None:
    enqueue(bench.store, a_request(policy="of-tomorrow"))
    bench.turn()
    assert bench.submitted == []
    assert "of-tomorrow" in bench.events()[-1]["error"]["message"]
    assert bench.outcomes == ["error"]


def test_a_request_whose_checks_are_being_loaded_holds_up_nobody(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(reference: str) -> None:
        if reference != "off":
            raise NotReady(reference)

    monkeypatch.setattr(bench.worker._book, "checks_of", load)
    enqueue(bench.store, a_request(policy="strict@1"))
    enqueue(bench.store, a_request("msg_2"))
    bench.turn()
    assert bench.submitted == ["msg_2"]
    assert bench.store.zrange(keys.ready(MODEL), 0, -1) == [b"msg_1"]
    monkeypatch.setattr(bench.worker._book, "checks_of", lambda reference: None)
    bench.worker._claim_due = 0.0
    bench.turn()
    assert bench.submitted == ["msg_2", "msg_1"]


def test_a_log_that_nobody_can_read_ends_its_message_alone(bench: Bench) -> None:
    enqueue(bench.store, a_request())
    bench.turn()
    bench.store.xadd(keys.log("msg_1"), {"f": "no frame"}, id="2-0")
    bench.lapse()
    enqueue(bench.store, a_request("msg_2"))
    heir = bench.another()
    heir.turn()
    assert heir.submitted == ["msg_2"]
    assert heir.outcomes == ["error"]
