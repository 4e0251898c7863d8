"""The same answers with the prefix cache and without, and what a client is told of it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from transformers import LlamaForCausalLM

from inference.engines.base import EngineRequest
from inference.engines.transformers import TransformersEngine
from tests.inference.engines.transformers.tools import WARM, Answers, generated_alone, load, prompt_of, request, run

PREFIX = prompt_of(70)


def cached_of(engine: TransformersEngine, asked: EngineRequest) -> int:
    """Serve one request; return what its outputs say of the cache."""
    told = set()
    engine.submit(asked)
    while engine.stats().running + engine.stats().waiting:
        told |= {output.cached_tokens for output in engine.step()}
    (cached,) = told
    return cached


def test_it_works(engine: TransformersEngine, reference: LlamaForCausalLM) -> None:
    prompt = (*PREFIX, 1, 2, 3)
    run(engine, request("a", prompt_ids=PREFIX))

    assert cached_of(engine, request("b", prompt_ids=prompt)) == 64
    assert run(engine, request("c", prompt_ids=prompt)).tokens["c"] == generated_alone(reference, prompt, 8)


@pytest.mark.parametrize("every", [0, 1, 5])
def test_each_gets_what_it_gets_alone(engine: TransformersEngine, reference: LlamaForCausalLM, every: int) -> None:
    prompts = [(*PREFIX[:length], *prompt_of(3, length)) for length in (70, 64, 63, 33, 32, 16, 5, 70)]

    answers = run(engine, *(request(str(n), 0, 20, prompt_ids=p) for n, p in enumerate(prompts)), every=every)

    for number, prompt in enumerate(prompts):
        assert answers.tokens[str(number)] == generated_alone(reference, prompt, 20)


def test_padded_decoding_gives_the_same(
    models: Path, reference: LlamaForCausalLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = load(models)
    monkeypatch.setattr(engine._runner._builder, "pad_decodes", True)  # type: ignore[attr-defined]  # of a ModelRunner
    prompts = [(*PREFIX, number) for number in range(4)]

    answers = run(engine, *(request(str(n), 0, 20, prompt_ids=p) for n, p in enumerate(prompts)), every=2)

    for number, prompt in enumerate(prompts):
        assert answers.tokens[str(number)] == generated_alone(reference, prompt, 20)


def test_the_next_turn_finds_the_last_answer(engine: TransformersEngine) -> None:
    answer = run(engine, request("a", 0, 30, prompt_ids=PREFIX)).tokens["a"]

    assert cached_of(engine, request("b", prompt_ids=(*PREFIX, *answer, 1, 2, 3))) == (70 + len(answer) - 1) // 16 * 16


def test_another_tenant_finds_nothing(engine: TransformersEngine) -> None:
    run(engine, request("a", prompt_ids=PREFIX, salt="one"))

    assert cached_of(engine, request("b", prompt_ids=PREFIX, salt="another")) == 0
    assert cached_of(engine, request("c", prompt_ids=PREFIX, salt="one")) == 64


def test_a_continued_answer_is_not_told_of_as_prompt(engine: TransformersEngine) -> None:
    answer = run(engine, request("a", 0, 30, prompt_ids=PREFIX[:20])).tokens["a"]

    again = request("b", 0, 40, prompt_ids=PREFIX[:20], generated_ids=answer)

    assert cached_of(engine, again) == 20


def test_it_can_be_switched_off(models: Path) -> None:
    engine = load(models, prefix_cache=False)
    run(engine, request("a", prompt_ids=PREFIX))

    assert cached_of(engine, request("b", prompt_ids=PREFIX)) == 0


def test_a_full_cache_makes_room_for_the_new(models: Path) -> None:
    engine = load(models, kv_cache_tokens=256)
    for seed in range(6):
        run(engine, request("a", prompt_ids=prompt_of(100, seed)))

    assert cached_of(engine, request("b", prompt_ids=prompt_of(100, 5))) == 96
    assert cached_of(engine, request("c", prompt_ids=prompt_of(100, 0))) == 0


def test_it_survives_hundreds_of_comings_and_goings(models: Path, reference: LlamaForCausalLM) -> None:
    engine = load(models, kv_cache_tokens=256, max_batch=4)
    chance = random.Random(3)
    asked: dict[str, EngineRequest] = {}
    answers = Answers()
    cancelled: set[str] = set()
    for number in range(300):
        if chance.random() < 0.5:
            prompt = (*PREFIX[: chance.randint(0, 70)], *prompt_of(chance.randint(1, 40), number % 5))
            sampling = {"sampling": WARM} if number % 2 else {}
            asked[str(number)] = request(str(number), 0, chance.randint(1, 40), prompt_ids=prompt, **sampling)
            engine.submit(asked[str(number)])
        running = sorted(asked.keys() - answers.finish.keys() - cancelled)
        if running and chance.random() < 0.2:
            engine.cancel(gone := chance.choice(running))
            cancelled.add(gone)
        answers.hear(engine.step())
        engine._scheduler.pool.check_integrity()
    while len(answers.finish) + len(cancelled) < len(asked):
        answers.hear(engine.step())

    for name in answers.finish:
        if int(name) % 2 == 0:
            alone = generated_alone(reference, asked[name].prompt_ids, asked[name].max_tokens)
            assert answers.tokens[name] == alone
