"""The worker's loop between a scripted engine and a real Redis."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any, cast

import pytest
import redis
from tokenizers import Tokenizer

from inference.broker import Broker
from inference.detokenizer import Vocabulary
from inference.engines.base import StepOutput
from inference.protocol import keys, scripts
from inference.protocol.reports import Settlement
from inference.protocol.settings import Settings, load
from inference.worker import Worker
from tests.inference.tools import MODEL, ScriptedEngine, a_request, enqueue, entries_of

SETTINGS = load({"SLUICE_MODEL": MODEL})


class Bench:
    """A worker on a bench: its engine, its Redis, and what came out."""

    def __init__(self, store: redis.Redis, vocabulary: Vocabulary, settings: Settings = SETTINGS) -> None:
        self.store, self.engine = store, ScriptedEngine()
        broker = Broker(store, model=MODEL, lease_s=settings.lease_s, log_ttl_s=60)
        self.worker = Worker(self.engine, broker, vocabulary, settings)

    def turn(self, *outputs: StepOutput) -> None:
        self.engine.steps.append(list(outputs))
        self.worker.turn()

    def events(self, message_id: str = "msg_1") -> list[dict[str, Any]]:
        rows = entries_of(self.store, keys.log(message_id))
        return [json.loads(fields[b"f"].rpartition(b"data: ")[2]) for _, fields in rows]

    def settlements(self) -> list[Settlement]:
        return [Settlement.decode(fields[b"r"]) for _, fields in entries_of(self.store, keys.settlements(MODEL))]

    def lapse(self, message_id: str = "msg_1") -> None:
        self.store.zadd(keys.leases(MODEL), {message_id: 0})


@pytest.fixture(scope="session")
def words(model_folder: Path) -> Tokenizer:
    return Tokenizer.from_file(str(model_folder / "tokenizer.json"))


@pytest.fixture(scope="session")
def vocabulary(model_folder: Path) -> Vocabulary:
    return Vocabulary.load(model_folder)


@pytest.fixture
def bench(store: redis.Redis, vocabulary: Vocabulary) -> Bench:
    return Bench(store, vocabulary)


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
    assert not bench.store.exists(keys.payloads(MODEL), keys.leases(MODEL), keys.attempts(MODEL))


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


def test_a_request_cancelled_in_the_queue_never_reaches_the_engine(bench: Bench) -> None:
    enqueue(bench.store, a_request())
    bench.store.eval(scripts.CANCEL, 1, keys.meta("msg_1"), "client_gone")
    bench.turn()
    bench.turn()
    assert bench.engine.submitted == []
    assert [s.outcome for s in bench.settlements()] == ["client_gone"]


def test_a_stop_string_stops_the_engine(bench: Bench, words: Tokenizer) -> None:
    enqueue(bench.store, a_request(stop_sequences=(" world",)))
    bench.turn()
    bench.turn(StepOutput("msg_1", tuple(words.encode("hello world").ids)))
    assert bench.engine.cancelled == ["msg_1"]
    assert [s.outcome for s in bench.settlements()] == ["stop_sequence"]


def test_another_worker_continues_and_the_stale_one_is_fenced(
    bench: Bench, store: redis.Redis, vocabulary: Vocabulary, words: Tokenizer
) -> None:
    one, two, three = words.encode("one two three").ids
    enqueue(store, a_request())
    bench.turn()
    bench.turn(StepOutput("msg_1", (one,)))
    bench.lapse()
    heir = Bench(store, vocabulary)
    heir.turn()
    assert heir.engine.submitted[0].generated_ids == (one,)
    bench.turn(StepOutput("msg_1", (two,)))
    assert bench.engine.cancelled == ["msg_1"], "the stale worker sees the fence and drops it"
    heir.turn(StepOutput("msg_1", (two,)))
    heir.turn(StepOutput("msg_1", (three,), "max_tokens"))
    texts = [e["delta"]["text"] for e in heir.events() if e["type"] == "content_block_delta"]
    assert texts == ["one", " two", " three"]
    assert [(s.attempts, s.output_tokens) for s in heir.settlements()] == [(2, 3)]


def test_a_message_that_ended_unsettled_is_settled_once(
    bench: Bench, store: redis.Redis, vocabulary: Vocabulary, words: Tokenizer
) -> None:
    enqueue(store, a_request())
    bench.turn()
    broker = bench.worker._broker
    broker.settle = lambda settlement: broker.renew([])  # type: ignore[method-assign]  # the crash
    bench.turn(StepOutput("msg_1", tuple(words.encode("hello").ids), "max_tokens"))
    bench.lapse()
    Bench(store, vocabulary).turn()
    assert [(s.outcome, s.output_tokens) for s in bench.settlements()] == [("max_tokens", 1)]


def test_after_three_attempts_it_gives_up(bench: Bench, store: redis.Redis, vocabulary: Vocabulary) -> None:
    enqueue(store, a_request())
    for _ in range(3):
        Bench(store, vocabulary).turn()
        bench.lapse()
    bench.turn()
    bench.turn()
    assert bench.events()[-1]["error"]["type"] == "api_error"
    assert [s.outcome for s in bench.settlements()] == ["worker_lost"]


def test_what_waited_too_long_times_out(store: redis.Redis, vocabulary: Vocabulary) -> None:
    enqueue(store, a_request())
    waited = int(store.zscore(keys.ready(MODEL), "msg_1") or 0) - 61_000
    blob = cast(bytes, store.hget(keys.payloads(MODEL), "msg_1")).partition(b"|")[2]
    store.hset(keys.payloads(MODEL), "msg_1", b"%d|%s" % (waited, blob))
    bench = Bench(store, vocabulary)
    bench.turn()
    bench.turn()
    assert bench.events()[-1]["error"]["type"] == "timeout_error"
    assert [s.outcome for s in bench.settlements()] == ["timeout"]


def test_a_worker_that_stops_hands_its_messages_over(bench: Bench) -> None:
    enqueue(bench.store, a_request())
    bench.turn()
    bench.worker.stop()
    bench.worker.run()
    assert bench.store.zscore(keys.ready(MODEL), "msg_1") == 0
    assert not bench.store.hlen(keys.WORKERS)


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
    assert bench.store.smembers(keys.MODELS) == {MODEL.encode()}
