"""The engine without a model."""

from __future__ import annotations

from pathlib import Path

import pytest
from tokenizers import Tokenizer

from inference.engines.base import EngineRequest, StepOutput
from inference.engines.simulated import SimulatedEngine


class Clock:
    """Time that passes only when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture(scope="session")
def tokenizer(model_folder: Path) -> Tokenizer:
    return Tokenizer.from_file(str(model_folder / "tokenizer.json"))


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def engine(tokenizer: Tokenizer, clock: Clock) -> SimulatedEngine:
    return SimulatedEngine(tokenizer, context_length=100, max_batch=8, prefill_s=0.1, tpot_s=0.02, clock=clock,
                           sleep=clock.sleep)  # fmt: skip


def a_request(name: str = "a", *, prompt: tuple[int, ...] = (1, 2), max_tokens: int = 5,
              generated: tuple[int, ...] = (), text: str = "hi") -> EngineRequest:  # fmt: skip
    return EngineRequest(id=name, prompt_ids=prompt, max_tokens=max_tokens, generated_ids=generated, text=text)


def run(engine: SimulatedEngine) -> list[StepOutput]:
    outputs: list[StepOutput] = []
    while engine.stats().running:
        outputs += engine.step()
    return outputs


def tokens(outputs: list[StepOutput], name: str = "a") -> list[int]:
    return [token for output in outputs if output.id == name for token in output.token_ids]


def test_it_keeps_the_pace(engine: SimulatedEngine, clock: Clock) -> None:
    engine.submit(a_request())
    outputs = run(engine)
    assert [o.finish for o in outputs] == [None] * 4 + ["max_tokens"]
    assert clock.now == pytest.approx(100 + 0.1 + 4 * 0.02)


def test_all_that_run_get_a_token_in_each_step(engine: SimulatedEngine, clock: Clock) -> None:
    for name in "abc":
        engine.submit(a_request(name))
    assert len(run(engine)) == 15
    assert clock.now == pytest.approx(100 + 0.1 + 4 * 0.02)


def test_a_first_token_does_not_wait_for_the_others_step(engine: SimulatedEngine, clock: Clock) -> None:
    engine.submit(a_request("a", max_tokens=50))
    while not tokens(engine.step()):
        pass
    clock.now += 0.011
    engine.submit(a_request("b", max_tokens=50))
    asked_at = clock.now
    while not tokens(engine.step(), "b"):
        pass
    assert clock.now == pytest.approx(asked_at + 0.1)


def test_the_text_depends_on_the_prompt_alone(engine: SimulatedEngine) -> None:
    engine.submit(a_request("a"))
    engine.submit(a_request("b"))
    engine.submit(a_request("c", prompt=(9,)))
    outputs = run(engine)
    assert tokens(outputs, "a") == tokens(outputs, "b") != tokens(outputs, "c")


def test_it_continues_where_another_stopped(engine: SimulatedEngine) -> None:
    engine.submit(a_request())
    whole = tokens(run(engine))
    engine.submit(a_request(generated=tuple(whole[:2])))
    assert tokens(run(engine)) == whole[2:]


def test_it_says_what_it_is_told(engine: SimulatedEngine, tokenizer: Tokenizer) -> None:
    engine.submit(a_request(text="SLUICE-SAY: Hello, wörld 🙂", max_tokens=50))
    outputs = run(engine)
    assert tokenizer.decode(tokens(outputs)) == "Hello, wörld 🙂"
    assert outputs[-1].finish == "end_of_text"


def test_a_cancelled_request_says_no_more(engine: SimulatedEngine) -> None:
    engine.submit(a_request())
    engine.cancel("a")
    engine.cancel("unknown")
    assert engine.step() == []


def test_it_tells_how_far_a_prompt_is(engine: SimulatedEngine, clock: Clock) -> None:
    engine.submit(a_request(prompt=(1,) * 40))
    clock.now += 0.025
    assert engine.stats().prefills == (("a", 10, 40),)
    clock.now += 0.1
    assert engine.stats().prefills == (("a", 40, 40),)
    engine.step()
    assert engine.stats().prefills == ()
