"""The engine around vLLM's, over a stand-in for it. What needs the real one is in `test_vllm_itself`."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from inference.engines import create_engine
from inference.engines.base import EngineError, EngineRequest, EngineStats, StepOutput
from inference.engines.vllm import VllmEngine
from inference.engines.vllm.arguments import arguments_of, check_device, prepare_environment
from inference.engines.vllm.engine import CoreOutput, CoreRequest, StepFailed
from inference.protocol.requests import Grammar, Sampling
from inference.protocol.settings import SettingError, load

END = 2


class FakeCore:
    """Gives what a test tells it to, and notes what it was asked."""

    context_length = 100
    max_batch = 4
    vocab_size = 50
    end_ids = frozenset({END})

    def __init__(self) -> None:
        self.added: list[CoreRequest] = []
        self.aborted: list[str] = []
        self.steps: list[list[CoreOutput] | Exception] = []

    def add(self, request: CoreRequest) -> None:
        self.added.append(request)

    def abort(self, request_id: str) -> None:
        self.aborted.append(request_id)

    def step(self) -> list[CoreOutput]:
        step = self.steps.pop(0)
        if isinstance(step, Exception):
            raise step
        return step

    def stats(self) -> EngineStats:
        return EngineStats(running=len(self.added))


@pytest.fixture
def core() -> FakeCore:
    return FakeCore()


@pytest.fixture
def engine(core: FakeCore) -> VllmEngine:
    return VllmEngine(core, clock=lambda: 1000.0)


def a_request(name: str = "a", **changes: Any) -> EngineRequest:
    return replace(EngineRequest(id=name, prompt_ids=(10, 11), max_tokens=5, salt="org"), **changes)


def step(engine: VllmEngine, core: FakeCore, *outputs: CoreOutput) -> list[StepOutput]:
    core.steps.append(list(outputs))
    return engine.step()


def test_it_works(engine: VllmEngine, core: FakeCore) -> None:
    engine.submit(a_request(sampling=Sampling(seed=7)))
    assert core.added == [
        CoreRequest(
            id="a", token_ids=[10, 11], max_tokens=5, sampling=Sampling(seed=7), position=0, salt="org", rank=1000.0
        )
    ]
    assert step(engine, core, CoreOutput("a", (20,), None, 1)) == [StepOutput("a", (20,), cached_tokens=1)]
    assert step(engine, core, CoreOutput("a", (21,), "length", 1)) == [StepOutput("a", (21,), "max_tokens", "", 1)]
    assert engine.step() == [], "there is nothing to compute, and vLLM is not asked"
    assert engine.stats() == EngineStats(running=1)


def test_the_end_of_the_text_is_no_token_of_it(engine: VllmEngine, core: FakeCore) -> None:
    engine.submit(a_request())
    assert step(engine, core, CoreOutput("a", (20, END), "stop")) == [StepOutput("a", (20,), "end_of_text")]


def test_it_continues_after_what_was_generated(engine: VllmEngine, core: FakeCore) -> None:
    engine.submit(a_request(generated_ids=(20, 21)))
    (asked,) = core.added
    assert (asked.token_ids, asked.max_tokens, asked.position) == ([10, 11, 20, 21], 3, 2)
    assert step(engine, core, CoreOutput("a", (22,), None, 4)) == [StepOutput("a", (22,), cached_tokens=2)]


def test_all_was_generated_already(engine: VllmEngine, core: FakeCore) -> None:
    engine.submit(a_request(generated_ids=(20, 21, 22, 23, 24)))
    assert engine.step() == [StepOutput("a", finish="max_tokens")]
    assert not core.added


def test_who_waited_or_is_of_a_better_class_goes_first(engine: VllmEngine, core: FakeCore) -> None:
    engine.submit(a_request("a"))
    engine.submit(a_request("b", waited_s=3.0))
    engine.submit(a_request("c", priority="priority"))
    engine.submit(a_request("d", priority="batch"))
    assert [request.id for request in sorted(core.added, key=lambda request: request.rank)] == ["c", "b", "a", "d"]


def test_a_cancelled_request_is_aborted(engine: VllmEngine, core: FakeCore) -> None:
    engine.submit(a_request())
    engine.cancel("a")
    engine.cancel("unknown")
    assert core.aborted == ["a"]
    assert engine.step() == []


def test_what_was_refused_can_be_cancelled(engine: VllmEngine) -> None:
    engine.submit(a_request(prompt_ids=()))
    engine.cancel("a")
    assert engine.step() == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"prompt_ids": ()}, "empty"),
        ({"max_tokens": 99}, "come to 101 tokens; the model takes 100"),
        ({"prompt_ids": (10, 50)}, "outside the model's vocabulary"),
        ({"generated_ids": (-1,)}, "outside the model's vocabulary"),
        ({"sampling": Sampling(top_p=2.0)}, "top_p"),
        ({"grammar": Grammar(source="start: /a/")}, "cannot hold an answer to a grammar"),
    ],
)
def test_it_refuses(engine: VllmEngine, core: FakeCore, changes: dict[str, Any], words: str) -> None:
    engine.submit(a_request(**changes))
    (output,) = engine.step()
    assert output.finish == "error"
    assert words in output.error
    assert not core.added


def test_it_does_without_a_grammar_that_only_helps(engine: VllmEngine, core: FakeCore) -> None:
    engine.submit(a_request(grammar=Grammar(source="start: /a/", required=False)))
    assert core.added


def test_a_request_that_vllm_gives_up_ends_with_an_error(engine: VllmEngine, core: FakeCore) -> None:
    engine.submit(a_request())
    assert step(engine, core, CoreOutput("a", (20,), "failed")) == [
        StepOutput("a", (20,), "error", "The model failed.")
    ]


@pytest.mark.parametrize(("out_of_memory", "finish"), [(True, "oom"), (False, "error")])
def test_a_step_that_fails_ends_those_it_was_for(
    engine: VllmEngine, core: FakeCore, out_of_memory: bool, finish: str
) -> None:
    for name in ("a", "b"):
        engine.submit(a_request(name))
    core.steps.append(StepFailed(["a"], out_of_memory=out_of_memory))
    (output,) = engine.step()
    assert (output.id, output.finish) == ("a", finish)
    assert step(engine, core, CoreOutput("b", (20,), "length"))[0].finish == "max_tokens"


def test_a_lost_device_is_fatal(engine: VllmEngine, core: FakeCore) -> None:
    engine.submit(a_request())
    core.steps.append(RuntimeError("device lost"))
    with pytest.raises(RuntimeError):
        engine.step()


def test_without_vllm_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inference.engines.vllm.engine.prepare_environment", lambda settings: None)
    monkeypatch.setitem(sys.modules, "vllm", None)
    monkeypatch.delitem(sys.modules, "inference.engines.vllm.core", raising=False)
    with pytest.raises(EngineError, match=r"pip install 'sluice\[vllm\]'"):
        create_engine(load({"SLUICE_ENGINE": "vllm"}))


def test_the_settings_become_its_arguments() -> None:
    settings = load(
        {
            "SLUICE_MODELS": "/models",
            "SLUICE_MODEL": "m",
            "SLUICE_TENSOR_PARALLEL": "2",
            "SLUICE_PIPELINE_PARALLEL": "3",
            "SLUICE_PARALLEL_BACKEND": "ray",
            "SLUICE_MAX_BATCH": "64",
            "SLUICE_MAX_BATCH_TOKENS": "32",
        }
    )
    arguments = arguments_of(settings)
    assert arguments["model"] == "/models/m"
    assert (arguments["tensor_parallel_size"], arguments["pipeline_parallel_size"]) == (2, 3)
    assert arguments["distributed_executor_backend"] == "ray"
    assert (arguments["max_num_seqs"], arguments["max_num_batched_tokens"]) == (32, 32)
    assert arguments["load_format"] == "safetensors"
    assert arguments_of(load({}))["distributed_executor_backend"] is None


def test_it_tells_nobody_and_keeps_its_cache_beside_the_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {})
    prepare_environment(load({"SLUICE_MODELS": str(tmp_path)}))
    assert os.environ["VLLM_NO_USAGE_STATS"] == "1"
    assert os.environ["VLLM_CACHE_ROOT"] == str(tmp_path / ".vllm")


@pytest.mark.parametrize("variable", ["SLUICE_KERNELS=native", "SLUICE_QUANTIZE=int8"])
def test_it_refuses_settings_of_another_engine(variable: str) -> None:
    with pytest.raises(EngineError, match=variable):
        arguments_of(load(dict([variable.split("=")])))


@pytest.mark.parametrize("engine", ["transformers", "simulated"])
@pytest.mark.parametrize(
    "variable", ["SLUICE_TENSOR_PARALLEL=2", "SLUICE_PIPELINE_PARALLEL=2", "SLUICE_PARALLEL_BACKEND=ray"]
)
def test_other_engines_refuse_its_settings(engine: str, variable: str) -> None:
    with pytest.raises(EngineError, match=f"{variable} needs SLUICE_ENGINE=vllm"):
        create_engine(load(dict([variable.split("=")]) | {"SLUICE_ENGINE": engine}))


def test_it_refuses_a_device_that_its_build_is_not_for() -> None:
    check_device(load({"SLUICE_DEVICE": "cpu"}), "cpu")
    check_device(load({}), "cuda")
    with pytest.raises(SettingError, match="runs on cpu; expected auto or cpu"):
        check_device(load({"SLUICE_DEVICE": "cuda:1"}), "cpu")
