"""A device whose memory is too small for some steps: who gets on, who does not, and that nobody else notices."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from inference.engines.base import EngineRequest
from inference.engines.transformers import TransformersEngine
from inference.engines.transformers.device import is_out_of_memory
from inference.engines.transformers.kv_blocks import BlockPool
from inference.engines.transformers.portions import PROVEN, Portions
from inference.engines.transformers.scheduler import Scheduler
from inference.engines.transformers.sequence import Chunk, Sequence
from tests.inference.engines.transformers.tools import Answers, prompt_of, request

Trouble = Callable[[list[Chunk]], Exception | None]


def next_token(token_ids: list[int]) -> int:
    return sum((place + 1) * token for place, token in enumerate(token_ids)) % 90


class Device:
    """Computes a token from all before it, unless there is trouble."""

    vocab_size = 97

    def __init__(self, trouble: Trouble) -> None:
        self.trouble = trouble
        self.runs: list[int] = []  # the tokens of each run that was tried

    def run(self, chunks: list[Chunk]) -> list[tuple[Sequence, int | None]]:
        self.runs.append(sum(chunk.num_tokens for chunk in chunks))
        if error := self.trouble(chunks):
            raise error
        return [(chunk.sequence, next_token(chunk.sequence.token_ids)) for chunk in chunks if chunk.is_last]


def has_room_for(num_tokens: int) -> Trouble:
    return lambda chunks: torch.OutOfMemoryError() if sum(c.num_tokens for c in chunks) > num_tokens else None


def chokes_on(*names: str, error: Exception) -> Trouble:
    return lambda chunks: error if {chunk.sequence.id for chunk in chunks} & {*names} else None


def engine_with(trouble: Trouble) -> tuple[TransformersEngine, Device]:
    device = Device(trouble)
    scheduler = Scheduler(BlockPool(256, 16), max_batch=32, max_batch_tokens=512)
    return TransformersEngine(device, scheduler, context_length=2048, end_ids=frozenset({96})), device


def answers_of(engine: TransformersEngine, *requests: EngineRequest) -> Answers:
    answers = Answers()
    for each in requests:
        engine.submit(each)
    while len(answers.finish) < len(requests):
        answers.hear(engine.step())
        engine._scheduler.pool.check_integrity()
    return answers


def expected_of(asked: EngineRequest) -> tuple[int, ...]:
    tokens = list(asked.prompt_ids)
    for _ in range(asked.max_tokens):
        tokens.append(next_token(tokens))
    return tuple(tokens[len(asked.prompt_ids) :])


def crowd(number: int, length: int = 40) -> list[EngineRequest]:
    return [request(str(seed), 0, 10, prompt_ids=prompt_of(length, seed)) for seed in range(number)]


@pytest.mark.parametrize("room", [500, 100, 20, 16])
def test_a_step_that_does_not_fit_is_computed_in_parts(room: int) -> None:
    engine, _ = engine_with(has_room_for(room))

    answers = answers_of(engine, *crowd(20))

    assert set(answers.finish.values()) == {"max_tokens"}
    assert answers.tokens == {each.id: expected_of(each) for each in crowd(20)}


def test_nobody_waits_for_another_when_memory_is_short() -> None:
    engine, device = engine_with(lambda chunks: None)
    for each in crowd(20):
        engine.submit(each)
    while engine.stats().waiting:
        engine.step()
    device.trouble = has_room_for(5)

    assert len({output.id for output in engine.step() if output.token_ids}) == 20


@pytest.mark.parametrize(
    "error", [torch.OutOfMemoryError(), MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory")]
)
def test_only_what_does_not_fit_alone_ends(error: Exception) -> None:
    engine, _ = engine_with(chokes_on("3", "7", error=error))

    answers = answers_of(engine, *crowd(20))

    assert {name for name, finish in answers.finish.items() if finish == "oom"} == {"3", "7"}
    assert "memory" in answers.errors["3"]
    assert answers.tokens == {each.id: () if each.id in "37" else expected_of(each) for each in crowd(20)}
    assert engine.stats().kv_tokens_used == 0


def test_what_memory_fails_in_the_middle_keeps_what_it_said() -> None:
    engine, device = engine_with(lambda chunks: None)
    answers = Answers()
    for each in crowd(4):
        engine.submit(each)
    for _ in range(5):
        answers.hear(engine.step())
    device.trouble = chokes_on("2", error=MemoryError())
    while len(answers.finish) < 4:
        answers.hear(engine.step())

    assert answers.finish == {"0": "max_tokens", "1": "max_tokens", "2": "oom", "3": "max_tokens"}
    assert 0 < len(answers.tokens["2"]) < 10
    assert answers.tokens["2"] == expected_of(crowd(4)[2])[: len(answers.tokens["2"])]


def test_a_request_that_the_model_chokes_on_ends_alone() -> None:
    engine, _ = engine_with(chokes_on("3", error=RuntimeError("a bug")))

    answers = answers_of(engine, *crowd(20))

    assert [name for name, finish in answers.finish.items() if finish == "error"] == ["3"]


def test_it_remembers_what_did_not_fit() -> None:
    engine, device = engine_with(has_room_for(200))
    answers_of(engine, *crowd(20))
    num_failed = sum(size > 200 for size in device.runs)

    answers_of(engine, *(request(str(seed), 0, 10, prompt_ids=prompt_of(40, seed + 50)) for seed in range(20)))

    assert 0 < num_failed < 4
    assert sum(size > 200 for size in device.runs) == num_failed


def test_it_tries_more_again_in_time() -> None:
    (chunk,) = [Chunk(Sequence.of(request("a", 512)), 0, 512, [])]
    portions = Portions()
    portions.did_not_fit([chunk])
    assert len(portions.cut([chunk])) == 2

    for _ in range(PROVEN):
        portions.fitted()

    assert portions.cut([chunk]) == [[chunk]]


def test_the_error_is_let_go_of_before_it_tries_again() -> None:
    alive: list[bool] = []

    class Tensors:
        """Stands for what a step held when it failed."""

        def __init__(self) -> None:
            alive.append(True)

        def __del__(self) -> None:
            alive.pop()

    def trouble(chunks: list[Chunk]) -> Exception | None:
        assert not alive, "the last try's memory is still held"
        held = Tensors()
        if len(chunks) > 1:
            raise torch.OutOfMemoryError(str(id(held)))
        return None

    answers = answers_of(engine_with(trouble)[0], *crowd(8))

    assert set(answers.finish.values()) == {"max_tokens"}


@pytest.mark.parametrize(
    "words", ["CUDA error: out of memory", "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate`"]
)
def test_it_knows_other_libraries_words_for_it(words: str) -> None:
    assert is_out_of_memory(RuntimeError(words))
    assert not is_out_of_memory(RuntimeError("CUDA error: device-side assert triggered"))


@given(st.lists(st.tuples(st.integers(1, 60), st.integers(1, 8)), min_size=1, max_size=12), st.integers(16, 80))
def test_whatever_the_memory_the_answers_are_the_same(sizes: list[tuple[int, int]], room: int) -> None:
    asked = [request(str(n), 0, most, prompt_ids=prompt_of(length, n % 3)) for n, (length, most) in enumerate(sizes)]

    answers = answers_of(engine_with(has_room_for(room))[0], *asked)

    assert answers.tokens == {each.id: expected_of(each) for each in asked}
