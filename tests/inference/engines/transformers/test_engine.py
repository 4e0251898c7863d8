from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LlamaForCausalLM

from inference.engines.base import EngineStats, FinishReason
from inference.engines.transformers import TransformersEngine
from inference.engines.transformers.kv_blocks import BlockPool
from inference.engines.transformers.runner import ModelRunner
from inference.engines.transformers.scheduler import Scheduler
from inference.engines.transformers.sequence import Chunk, Sequence
from inference.protocol.requests import Sampling
from tests.inference.engines.transformers.tools import (
    END_IDS,
    GREEDY,
    VOCAB_SIZE,
    WARM,
    Answers,
    generated_alone,
    load,
    prompt_of,
    request,
    run,
)


def test_it_works(engine: TransformersEngine, reference: LlamaForCausalLM) -> None:
    answers = run(engine, request("a", 5, 20))

    assert answers.tokens["a"] == generated_alone(reference, prompt_of(5), 20)
    assert engine.stats() == EngineStats(kv_tokens_total=512)


def test_it_tells_how_far_a_prompt_is(engine: TransformersEngine) -> None:
    engine.submit(request("a", 70, 5))  # longer than a step
    engine.step()
    ((name, computed, size),) = engine.stats().prefills
    assert (name, size) == ("a", 70)
    assert 0 < computed < 70
    while not engine.step():
        pass
    assert engine.stats().prefills == ()


@pytest.mark.parametrize("every", [0, 1, 3])
def test_each_in_a_batch_gets_what_it_gets_alone(
    engine: TransformersEngine, reference: LlamaForCausalLM, every: int
) -> None:
    lengths = [3, 40, 1, 17, 16, 70]  # of which some are longer than a step

    answers = run(engine, *(request(str(length), length, 20) for length in lengths), every=every)

    for length in lengths:
        assert answers.tokens[str(length)] == generated_alone(reference, prompt_of(length), 20)


def test_padded_decoding_gives_the_same(
    models: Path, reference: LlamaForCausalLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = load(models)
    runner = engine._runner
    assert isinstance(runner, ModelRunner)
    monkeypatch.setattr(runner._builder, "pad_decodes", True)

    answers = run(engine, *(request(str(length), length, 20) for length in (3, 40, 1, 90)))

    for length in (3, 40, 1, 90):
        assert answers.tokens[str(length)] == generated_alone(reference, prompt_of(length), 20)


def test_sequences_get_on_when_the_cache_is_full(models: Path, reference: LlamaForCausalLM) -> None:
    engine = load(models, kv_cache_tokens=256)

    answers = run(engine, *(request(str(seed), 40, 60, prompt_ids=prompt_of(40, seed)) for seed in range(8)))

    for seed in range(8):
        assert answers.tokens[str(seed)] == generated_alone(reference, prompt_of(40, seed), 60)


def test_the_end_of_text_is_told_but_not_shown(engine: TransformersEngine, reference: LlamaForCausalLM) -> None:
    answers = run(engine, *(request(str(seed), 4, 400, prompt_ids=prompt_of(4, seed)) for seed in range(8)))

    ended = [name for name, finish in answers.finish.items() if finish == "end_of_text"]
    assert ended, "none of the prompts leads to an end"
    for name in ended:
        assert not set(answers.tokens[name]) & set(END_IDS)
        assert answers.tokens[name] == generated_alone(reference, prompt_of(4, int(name)), 400)


def test_the_last_token_comes_with_its_end(engine: TransformersEngine) -> None:
    engine.submit(request("a", 5, 1))

    [output] = engine.step()

    assert (len(output.token_ids), output.finish) == (1, "max_tokens")
    assert engine.step() == []


@pytest.mark.parametrize("sampling", [GREEDY, WARM])
@pytest.mark.parametrize("kept", [1, 7, 19])
def test_a_continued_sequence_is_the_one_it_would_have_been(
    engine: TransformersEngine, sampling: Sampling, kept: int
) -> None:
    whole = run(engine, request("a", 17, 20, sampling=sampling)).tokens["a"]
    assert len(whole) == 20

    rest = run(engine, request("a", 17, 20, sampling=sampling, generated_ids=whole[:kept])).tokens["a"]

    assert whole[:kept] + rest == whole


def test_what_was_complete_already_ends_at_once(engine: TransformersEngine) -> None:
    answers = run(engine, request("a", max_tokens=2, generated_ids=(1, 2)))

    assert (answers.finish, answers.tokens) == ({"a": "max_tokens"}, {"a": ()})


def test_a_seed_draws_the_same_in_any_company(engine: TransformersEngine) -> None:
    seeded = [request(str(seed), 6, 20, sampling=Sampling(temperature=0.8, top_p=0.9, seed=seed)) for seed in range(6)]

    together = run(engine, *seeded, every=1)

    assert together.tokens == {each.id: run(engine, each).tokens[each.id] for each in seeded}
    assert len(set(together.tokens.values())) > 1


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"prompt_ids": prompt_of(500), "max_tokens": 13}, "513 tokens"),
        ({"prompt_ids": ()}, "empty"),
        ({"prompt_ids": (1, VOCAB_SIZE)}, "vocabulary"),
        ({"prompt_ids": (1, -1)}, "vocabulary"),
        ({"generated_ids": (VOCAB_SIZE,)}, "vocabulary"),
        ({"sampling": Sampling(temperature=float("nan"))}, "temperature"),
        ({"sampling": Sampling(top_k=-1)}, "top_k"),
    ],
)
def test_it_refuses_what_can_never_be_served(engine: TransformersEngine, changes: dict[str, Any], problem: str) -> None:
    answers = run(engine, request("bad", **changes), request("good"))

    assert answers.finish == {"bad": "error", "good": "max_tokens"}
    assert problem in answers.errors["bad"]


def test_it_serves_a_top_k_of_any_size(engine: TransformersEngine) -> None:
    answers = run(engine, request("a", sampling=Sampling(top_k=10**20)), request("b", sampling=WARM))

    assert "error" not in answers.finish.values()


def test_it_learns_its_pace(engine: TransformersEngine) -> None:
    run(engine, request("a"))

    assert engine._scheduler.pace.allowance(1) < sys.maxsize


def test_it_serves_what_just_fits(engine: TransformersEngine) -> None:
    assert len(run(engine, request("a", 500, 12)).tokens["a"]) <= 12


def test_a_cancelled_request_is_not_spoken_of(engine: TransformersEngine) -> None:
    engine.submit(request("a"))
    engine.submit(request("refused", prompt_ids=()))
    engine.submit(request("b"))
    engine.step()
    engine.submit(request("waiting"))
    engine.submit(request("refused", prompt_ids=()))
    for name in ("a", "refused", "waiting", "unknown"):
        engine.cancel(name)

    assert [output.id for output in engine.step()] == ["b"]
    assert engine.stats().running == 1


def test_blocks_of_a_cancelled_request_serve_the_next(models: Path, reference: LlamaForCausalLM) -> None:
    engine = load(models, kv_cache_tokens=256)
    for attempt in range(5):
        engine.submit(request("a", 200 + attempt, 20))
        engine.step()
        engine.cancel("a")

    answers = run(engine, request("a", 230, 20))

    assert answers.tokens["a"] == generated_alone(reference, prompt_of(230), 20)


@pytest.mark.parametrize(
    ("error", "finish"), [(RuntimeError("boom"), "error"), (torch.OutOfMemoryError(), "oom"), (MemoryError(), "oom")]
)
def test_a_failed_step_fails_only_who_was_in_it(
    engine: TransformersEngine, monkeypatch: pytest.MonkeyPatch, error: Exception, finish: FinishReason
) -> None:
    def fail(chunks: list[Chunk]) -> list[tuple[Sequence, int | None]]:
        raise error

    engine.submit(request("a", 16))  # fills the step, so that the next one waits
    engine.submit(request("b", 17))
    with monkeypatch.context() as patch:
        patch.setattr(engine._runner, "run", fail)
        [output] = engine.step()

    assert (output.id, output.finish) == ("a", finish)
    assert output.error
    answers = Answers()
    while not answers.finish:
        answers.hear(engine.step())
    assert answers.finish == {"b": "max_tokens"}


def test_a_lost_device_is_left_to_the_worker(engine: TransformersEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(chunks: list[Chunk]) -> list[tuple[Sequence, int | None]]:
        raise torch.AcceleratorError("device-side assert")

    engine.submit(request("a"))
    monkeypatch.setattr(engine._runner, "run", fail)

    with pytest.raises(torch.AcceleratorError):
        engine.step()


def test_a_sequence_without_numbers_ends_alone(engine: TransformersEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    compute = engine._runner.run

    def spoil(chunks: list[Chunk]) -> list[tuple[Sequence, int | None]]:
        return [(sequence, None if sequence.id == "bad" else token) for sequence, token in compute(chunks)]

    monkeypatch.setattr(engine._runner, "run", spoil)

    assert run(engine, request("bad"), request("good")).finish == {"bad": "error", "good": "max_tokens"}


def test_it_survives_hundreds_of_comings_and_goings(models: Path) -> None:
    engine = load(models, kv_cache_tokens=256, max_batch=4)
    chance = random.Random(3)
    open_ids: set[str] = set()
    answers = Answers()
    for number in range(400):
        if chance.random() < 0.5:
            engine.submit(request(str(number), chance.randint(1, 120), chance.randint(1, 60), sampling=WARM))
            open_ids.add(str(number))
        if open_ids and chance.random() < 0.3:
            cancelled = chance.choice(sorted(open_ids))
            engine.cancel(cancelled)
            open_ids.remove(cancelled)
        answers.hear(engine.step())
        open_ids -= answers.finish.keys()
        engine._scheduler.pool.check_integrity()
    while open_ids:
        answers.hear(engine.step())
        open_ids -= answers.finish.keys()

    assert engine.stats() == EngineStats(kv_tokens_total=256)
    assert set(answers.finish.values()) <= {"max_tokens", "end_of_text"}


def test_two_engines_share_nothing(models: Path) -> None:
    one, other = load(models), load(models)
    alone = run(load(models), request("a", 30, 10)).tokens
    one.submit(request("a", 30, 10))
    answers = Answers()
    for _ in range(12):
        answers.hear(one.step())
        if not other.stats().running:
            other.submit(request("b", 9, 4))
        other.step()

    assert answers.tokens == alone


class SlowRunner:
    """Takes so long for a token, on a clock of its own."""

    vocab_size = VOCAB_SIZE

    def __init__(self, token_s: float) -> None:
        self.now, self.seconds, self._token_s = 0.0, list[float](), token_s

    def run(self, chunks: list[Chunk]) -> list[tuple[Sequence, int | None]]:
        seconds = 0.01 + self._token_s * sum(chunk.num_tokens for chunk in chunks)
        self.now += seconds
        self.seconds.append(seconds)
        return [(chunk.sequence, 1) for chunk in chunks if chunk.is_last]


@pytest.mark.parametrize("token_s", [0.00001, 0.001, 0.07])
def test_no_step_takes_as_long_as_a_lease_however_slow_the_model(token_s: float) -> None:
    lease_s = 10.0
    runner = SlowRunner(token_s)
    scheduler = Scheduler(
        BlockPool(256, 16), max_batch=8, max_batch_tokens=512, longest_step_s=lease_s / 4, clock=lambda: runner.now
    )
    engine = TransformersEngine(runner, scheduler, context_length=4096, end_ids=frozenset(), clock=lambda: runner.now)
    engine.warm_up()
    assert runner.now < 3 * lease_s, "nor does the warm-up take long"

    run(engine, request("a", 2000, 8))

    assert max(runner.seconds) < lease_s
    assert token_s > 0.01 or max(runner.seconds) == pytest.approx(0.01 + token_s * 512), "what is fast takes it whole"
