"""A worker that an operator asked to drain."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import redis
from tokenizers import Tokenizer

from inference.detokenizer import Vocabulary
from inference.engines.base import StepOutput
from inference.protocol import drains, keys
from tests.inference.tools import MODEL, SETTINGS, Bench, a_request, enqueue


def ask(bench: Bench, *, started_at: float | None = None) -> None:
    """Leave a note for the worker, which will look for one in its next turn."""
    begun = bench.worker._started_at if started_at is None else started_at
    bench.store.set(keys.drain(bench.worker.id), drains.note(begun))
    bench.worker._beat_due = 0


def heartbeat(bench: Bench) -> dict[str, object]:
    (raw,) = bench.store.hvals(keys.WORKERS)
    return dict(json.loads(raw))


def test_it_works(bench: Bench, words: Tokenizer) -> None:
    enqueue(bench.store, a_request("msg_1"))
    bench.turn()
    assert heartbeat(bench)["draining"] is False
    ask(bench)
    bench.turn()
    assert heartbeat(bench)["draining"] is True
    enqueue(bench.store, a_request("msg_2"))
    bench.engine.steps = [
        [StepOutput("msg_1", tuple(words.encode("hello").ids))],
        [StepOutput("msg_1", (), "max_tokens")],
    ]

    bench.worker.run()

    assert bench.outcomes == ["max_tokens"], "what ran came to its end"
    assert bench.submitted == ["msg_1"], "and nothing else was claimed"
    assert bench.store.zrange(keys.ready(MODEL), 0, -1) == [b"msg_2"]
    assert not bench.store.hlen(keys.WORKERS)


def test_an_idle_one_ends_at_once(bench: Bench) -> None:
    ask(bench)
    bench.worker.run()
    assert bench.worker.draining
    assert not bench.store.hlen(keys.WORKERS)


def test_what_does_not_end_in_time_is_handed_over(store: redis.Redis, vocabulary: Vocabulary, words: Tokenizer) -> None:
    bench = Bench(store, vocabulary, replace(SETTINGS, drain_s=0.0))
    enqueue(bench.store, a_request())
    bench.turn()
    hello = tuple(words.encode("hello").ids)
    bench.turn(StepOutput("msg_1", hello))
    ask(bench)

    bench.worker.run()

    assert bench.store.zrange(keys.ready(MODEL), 0, -1) == [b"msg_1"]
    heir = bench.another()
    heir.turn()
    assert heir.engine.submitted[0].generated_ids == hello, "another goes on where it was"


@pytest.mark.parametrize("off", [-1.0, 1e-3])
def test_a_note_for_one_that_began_at_another_time_is_not_for_it(bench: Bench, off: float) -> None:
    """In a container a successor has the same id."""
    ask(bench, started_at=bench.worker._started_at + off)
    bench.turn()
    assert not bench.worker.draining
