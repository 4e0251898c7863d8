"""The worker's loop between a scripted engine and a real Redis."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
import redis
from tokenizers import Tokenizer

from inference import writing
from inference.broker import Broker
from inference.detokenizer import Vocabulary
from inference.engines.base import StepOutput
from inference.protocol import keys, scripts
from inference.text import Piece
from inference.worker import Worker
from tests.inference.tools import MODEL, SETTINGS, Bench, ScriptedEngine, a_request, enqueue


def test_it_works(bench: Bench, words: Tokenizer) -> None:
    enqueue(bench.store, a_request())
    bench.turn()
    assert [r.id for r in bench.engine.submitted] == ["msg_1"]
    hello, world = words.encode("hello world").ids
    bench.turn(StepOutput("msg_1", (hello,)))
    bench.turn(StepOutput("msg_1", (world,), "end_of_text"))
    assert [e["type"] for e in bench.events()] == [
        "message_start", "content_block_start", "content_block_delta", "content_block_delta",
        "content_block_stop", "message_delta", "message_stop",
    ]  # fmt: skip
    (settlement,) = bench.settlements()
    assert (settlement.outcome, settlement.output_tokens, settlement.attempts) == ("end_turn", 2, 1)
    assert bench.is_forgotten()


def test_operators_can_see_who_has_a_message(bench: Bench) -> None:
    enqueue(bench.store, a_request())
    bench.turn()
    assert bench.store.hget(keys.meta("msg_1"), "worker") == bench.worker.id.encode()


def test_it_claims_no_more_than_fits(bench: Bench) -> None:
    for i in range(6):
        enqueue(bench.store, a_request(f"msg_{i}"))
    bench.turn()
    assert len(bench.engine.submitted) == bench.engine.max_batch
    bench.turn(StepOutput("msg_0", (), "end_of_text"))
    assert bench.engine.submitted[-1].id == "msg_4"


def test_it_stops_on_a_cancel_within_one_step(bench: Bench, words: Tokenizer) -> None:
    enqueue(bench.store, a_request())
    bench.turn()
    bench.store.eval(scripts.CANCEL, 1, keys.meta("msg_1"), "client_gone")
    bench.turn(StepOutput("msg_1", tuple(words.encode("hello").ids)))
    assert bench.engine.cancelled == ["msg_1"]
    bench.turn()
    assert bench.events()[-2]["delta"]["stop_reason"] == "cancelled"
    assert [s.outcome for s in bench.settlements()] == ["client_gone"]


def test_a_stop_string_stops_the_engine(bench: Bench, words: Tokenizer) -> None:
    enqueue(bench.store, a_request(stop_sequences=(" world",)))
    bench.turn()
    bench.turn(StepOutput("msg_1", tuple(words.encode("hello world").ids)))
    assert bench.engine.cancelled == ["msg_1"]
    assert [s.outcome for s in bench.settlements()] == ["stop_sequence"]


def test_another_worker_continues_and_the_stale_one_is_fenced(bench: Bench, words: Tokenizer) -> None:
    one, two, three = words.encode("one two three").ids
    enqueue(bench.store, a_request())
    bench.turn()
    bench.turn(StepOutput("msg_1", (one,)))
    bench.lapse()
    heir = bench.another()
    heir.turn()
    assert heir.engine.submitted[0].generated_ids == (one,)
    bench.turn(StepOutput("msg_1", (two,)))
    assert bench.engine.cancelled == ["msg_1"], "the stale worker sees the fence and drops it"
    heir.turn(StepOutput("msg_1", (two,)))
    heir.turn(StepOutput("msg_1", (three,), "max_tokens"))
    texts = [e["delta"]["text"] for e in heir.events() if e["type"] == "content_block_delta"]
    assert texts == ["one", " two", " three"]
    assert [(s.attempts, s.output_tokens) for s in heir.settlements()] == [(2, 3)]


def test_after_an_outage_it_keeps_what_it_runs(bench: Bench) -> None:
    enqueue(bench.store, a_request())
    bench.turn()
    bench.lapse()
    bench.turn()
    assert bench.submitted == ["msg_1"]
    assert bench.engine.cancelled == []


def test_it_starts_anew_on_a_claim_of_its_own(bench: Bench, words: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = words.encode("one two").ids
    enqueue(bench.store, a_request())
    bench.turn()
    bench.lapse()
    with monkeypatch.context() as patch:
        patch.setattr(bench.worker._leases, "renewals", lambda claiming: [])  # Redis had forgotten that script alone
        bench.turn(StepOutput("msg_1", (one,)))
    assert bench.engine.cancelled == ["msg_1"]
    assert bench.engine.submitted[1].generated_ids == (one,)
    bench.turn(StepOutput("msg_1", (two,), "max_tokens"))
    assert [(s.outcome, s.output_tokens, s.attempts) for s in bench.settlements()] == [("max_tokens", 2, 2)]


def test_a_fault_of_one_message_ends_it_alone(
    bench: Bench, words: Tokenizer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    secret = "the text"

    def fail(token_id: int) -> Piece:
        raise ValueError(secret)

    one, two = words.encode("one two").ids
    for name in ("msg_1", "msg_2"):
        enqueue(bench.store, a_request(name))
    bench.turn()
    monkeypatch.setattr(bench.worker._running["msg_1"]._detokenizer, "push", fail)
    bench.turn(StepOutput("msg_1", (one,)), StepOutput("msg_2", (one,)))
    bench.turn(StepOutput("msg_2", (two,), "max_tokens"))
    assert set(bench.engine.cancelled) == {"msg_1"}
    assert bench.events()[-1]["error"]["type"] == "api_error"
    assert bench.outcomes == ["error", "max_tokens"]
    assert "msg_1: failed: " in caplog.text
    assert secret not in caplog.text


def test_a_fault_of_the_engine_is_fatal(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> list[StepOutput]:
        raise RuntimeError("device lost")

    bench.turn()
    monkeypatch.setattr(bench.engine, "step", fail)
    with pytest.raises(RuntimeError):
        bench.worker.run()
    assert not bench.store.hlen(keys.WORKERS), "it is off the list"


def test_a_request_that_the_engine_chokes_on_ends_alone(bench: Bench) -> None:
    enqueue(bench.store, a_request())
    bench.engine.refusal = TypeError("'<' not supported")
    bench.turn()
    bench.turn()
    assert bench.outcomes == ["error"]


def test_it_waits_for_room_in_a_full_redis(bench: Bench, words: Tokenizer) -> None:
    one, two = words.encode("one two").ids
    enqueue(bench.store, a_request())
    with bench.full():
        bench.turn()
        bench.turn(StepOutput("msg_1", (one,)))
        assert len(bench.events()) == 1
        bench.turn()
    bench.turn(StepOutput("msg_1", (two,), "max_tokens"))
    assert [e["delta"]["text"] for e in bench.events() if e["type"] == "content_block_delta"] == ["one", " two"]
    assert bench.outcomes == ["max_tokens"]


def test_it_ends_what_a_full_redis_refuses_for_long(
    bench: Bench, words: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "FULL_PATIENCE_S", 0)
    enqueue(bench.store, a_request())
    bench.turn()
    with bench.full():
        bench.turn(StepOutput("msg_1", tuple(words.encode("hello").ids)))
        bench.turn()
        bench.turn()
    assert bench.engine.cancelled == ["msg_1"]
    assert bench.events()[-1]["type"] == "error"
    assert bench.outcomes == ["error"]


def test_a_log_that_takes_no_events_ends_alone(bench: Bench, words: Tokenizer) -> None:
    for name in ("msg_1", "msg_2"):
        enqueue(bench.store, a_request(name))
    bench.turn()
    bench.store.set(keys.log("msg_1"), "not a stream")
    hello = tuple(words.encode("hello").ids)
    bench.turn(StepOutput("msg_1", hello), StepOutput("msg_2", hello))
    bench.turn(StepOutput("msg_2", (), "end_of_text"))
    assert bench.outcomes == ["error", "end_turn"]


def test_what_cannot_be_settled_is_left_to_its_heir(bench: Bench) -> None:
    enqueue(bench.store, a_request())
    bench.turn()
    bench.store.set(keys.settlements(MODEL), "not a stream")
    bench.turn(StepOutput("msg_1", (), "end_of_text"))
    bench.store.delete(keys.settlements(MODEL))
    assert not bench.worker._running


def test_it_waits_while_redis_is_a_replica(bench: Bench) -> None:
    enqueue(bench.store, a_request())
    bench.store.replicaof("127.0.0.1", "1")
    promotion = threading.Timer(0.2, bench.store.replicaof, ("NO", "ONE"))
    promotion.start()
    bench.turn()
    promotion.join()
    assert bench.submitted == ["msg_1"]


def test_a_worker_that_stops_hands_its_messages_over(bench: Bench, words: Tokenizer) -> None:
    for name in ("msg_1", "msg_2"):
        enqueue(bench.store, a_request(name))
    bench.turn()
    hello = tuple(words.encode("hello").ids)
    bench.worker._take([StepOutput("msg_1", hello)])
    bench.worker._take([StepOutput("msg_2", hello, "max_tokens")])
    bench.worker.stop()
    bench.worker.run()
    assert bench.store.zrange(keys.ready(MODEL), 0, -1) == [b"msg_1"]
    assert bench.outcomes == ["max_tokens"], "what was finished is not dropped"
    assert not bench.store.hlen(keys.WORKERS)
    heir = bench.another()
    heir.turn()
    assert heir.engine.submitted[0].generated_ids == hello


def test_messages_handed_over_are_not_lost(bench: Bench) -> None:
    enqueue(bench.store, a_request())
    for _ in range(5):
        one = bench.another()
        one.turn()
        one.worker.stop()
        one.worker.run()
    bench.turn()
    assert bench.submitted == ["msg_1"]


def test_a_worker_can_be_stopped_while_redis_is_away(vocabulary: Vocabulary, tmp_path: Path) -> None:
    stopping = threading.Event()
    nowhere = redis.Redis.from_url(f"unix://{tmp_path}/no.sock")
    broker = Broker(nowhere, model=MODEL, lease_s=10, log_ttl_s=60, stopping=stopping)
    worker = Worker(ScriptedEngine(), broker, vocabulary, SETTINGS, stopping)
    thread = threading.Thread(target=worker.run)
    thread.start()
    worker.stop()
    thread.join(5)
    assert not thread.is_alive()


def test_it_survives_a_redis_that_forgot_the_scripts(bench: Bench) -> None:
    bench.store.script_flush()
    enqueue(bench.store, a_request())
    bench.turn()
    assert len(bench.engine.submitted) == 1


def test_its_heartbeat_says_what_it_serves(bench: Bench) -> None:
    bench.turn()
    (raw,) = bench.store.hvals(keys.WORKERS)
    assert json.loads(raw)["model"] == MODEL
    assert abs(json.loads(raw)["seen_at"] - bench.store.time()[0]) < 5
    assert bench.store.smembers(keys.MODELS) == {MODEL.encode()}
