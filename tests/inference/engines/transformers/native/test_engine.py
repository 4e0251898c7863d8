"""The engine on the native decoder: right, and the same in any company."""

from __future__ import annotations

import copy
import ctypes
import platform
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor
from transformers import (
    AutoModelForCausalLM,
    GPT2Config,
    LlamaConfig,
    MistralConfig,
    PreTrainedConfig,
    PreTrainedModel,
    Qwen2Config,
    Qwen3Config,
)

from inference.engines.base import EngineError, EngineRequest
from inference.engines.transformers import TransformersEngine, selftest
from inference.engines.transformers.native import build
from inference.engines.transformers.native.runner import NativeRunner
from inference.engines.transformers.native.weights import pack_int8
from inference.engines.transformers.runner import ModelRunner
from inference.engines.transformers.sequence import Chunk, Sequence
from tests.inference.engines.transformers import tools
from tests.inference.engines.transformers.native.conftest import SIZES
from tests.inference.engines.transformers.tools import GREEDY, VOCAB_SIZE, WARM, prompt_of, request, run, tiny_config


def load(models: Path, **changes: Any) -> TransformersEngine:
    return tools.load(models, **({"dtype": "auto", "kernels": "native"} | changes))


def model_of(config: PreTrainedConfig) -> PreTrainedModel:
    torch.manual_seed(0)
    model: PreTrainedModel = AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]
    for name, parameter in model.named_parameters():
        if parameter.dim() == 1:  # norms begin as ones and biases as zeros, which would hide whether they are heeded
            torch.nn.init.normal_(parameter, mean="norm" in name, std=0.3)
    torch.nn.Module.to(model, torch.bfloat16)
    return model


FAMILY = [
    LlamaConfig(**tiny_config(**SIZES)),
    LlamaConfig(**tiny_config(**SIZES, num_key_value_heads=1, tie_word_embeddings=True)),
    LlamaConfig(**tiny_config(**SIZES | {"hidden_size": 320, "num_attention_heads": 20}, num_key_value_heads=1)),
    MistralConfig(**tiny_config(**SIZES, sliding_window=None)),
    Qwen2Config(**tiny_config(**SIZES, use_sliding_window=False)),
    Qwen3Config(**tiny_config(**SIZES, head_dim=32, use_sliding_window=False)),
]


@pytest.fixture(scope="module")
def runner(kernels: ctypes.CDLL) -> NativeRunner:
    with torch.inference_mode():
        return NativeRunner(kernels, model_of(FAMILY[0]), 512, 64)


def chunk(prompt: tuple[int, ...], start: int, end: int, table: list[int]) -> Chunk:
    sequence = Sequence.of(EngineRequest(id=str(table), prompt_ids=prompt[:end], max_tokens=1, sampling=GREEDY))
    return Chunk(sequence, start, end, table)


def alone(runner: NativeRunner, prompt: tuple[int, ...]) -> Tensor:
    logits, _ = runner.logits([chunk(prompt, 0, len(prompt), list(range(1, 9)))])
    return logits[0]


def test_it_works(models: Path) -> None:
    engine = load(models)

    assert isinstance(engine._runner, NativeRunner)
    assert len(run(engine, request("a", 40, 20)).tokens["a"]) == 20


@pytest.mark.parametrize(
    "config", FAMILY, ids=lambda c: f"{c.model_type}-{c.num_attention_heads}-{c.num_key_value_heads}"
)
def test_it_computes_what_the_model_computes(kernels: ctypes.CDLL, config: PreTrainedConfig) -> None:
    model = model_of(config)
    prompt = prompt_of(70)
    with torch.inference_mode():
        model.set_attn_implementation("eager")
        expected = torch.nn.Module.float(model)(input_ids=torch.tensor([prompt]), use_cache=False).logits[0, -1]
        runner = NativeRunner(kernels, model, 512, 64)
    assert (alone(runner, prompt) - expected).norm() < 0.02 * expected.norm()


def test_int8_computes_with_the_rounded_weights(kernels: ctypes.CDLL) -> None:
    model, rounded = model_of(FAMILY[0]), model_of(FAMILY[0])
    prompt = prompt_of(70)
    with torch.inference_mode():
        for name, parameter in rounded.named_parameters():
            if parameter.dim() == 2 and "embed" not in name:
                scales = parameter.float().abs().amax(dim=1, keepdim=True) / 127
                parameter.copy_((parameter.float() / scales).round() * scales)
        rounded.set_attn_implementation("eager")
        expected = torch.nn.Module.float(rounded)(input_ids=torch.tensor([prompt]), use_cache=False).logits[0, -1]
        runner = NativeRunner(kernels, model, 512, 64, pack=pack_int8)
    assert (alone(runner, prompt) - expected).norm() < 0.03 * expected.norm()


def test_kernels_for_lesser_processors_agree(
    tmp_path: Path, runner: NativeRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    lesser = ["-march=x86-64-v3"] if platform.machine() == "x86_64" else []
    monkeypatch.setattr(build, "FLAGS", (*lesser, *(flag for flag in build.FLAGS if flag != "-march=native")))
    with torch.inference_mode():
        plain = NativeRunner(build.load_kernels(tmp_path, threads=2), model_of(FAMILY[0]), 512, 64)
    prompt = prompt_of(70)
    expected = alone(runner, prompt)
    assert (alone(plain, prompt) - expected).norm() < 0.01 * expected.norm()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_company_and_chunks_change_no_bit(runner: NativeRunner, data: st.DataObject) -> None:
    prompts = {
        name: prompt_of(length, seed)
        for name, (length, seed) in enumerate(
            data.draw(st.lists(st.tuples(st.integers(1, 100), st.integers(0, 3)), min_size=1, max_size=5))
        )
    }
    expected = {name: alone(runner, prompt) for name, prompt in prompts.items()}
    order = data.draw(st.permutations(range(10, 10 + 8 * len(prompts))))
    tables = {name: order[8 * name : 8 * name + 8] for name in prompts}
    done = dict.fromkeys(prompts, 0)
    while left := [name for name, prompt in prompts.items() if done[name] < len(prompt)]:
        turn = data.draw(st.lists(st.sampled_from(left), min_size=1, unique=True))
        chunks = []
        for name in turn:
            end = data.draw(st.integers(done[name] + 1, len(prompts[name])))
            chunks.append(chunk(prompts[name], done[name], end, tables[name]))
            done[name] = end
        logits, _ = runner.logits(chunks)
        for name, row in zip(turn, logits, strict=True):
            if done[name] == len(prompts[name]):
                assert torch.equal(row, expected[name])


def test_a_continued_answer_is_the_one_it_would_have_been(models: Path) -> None:
    prompt = prompt_of(30)
    whole = run(load(models), EngineRequest(id="a", prompt_ids=prompt, max_tokens=60, sampling=WARM)).tokens["a"]
    rest = EngineRequest(id="a", prompt_ids=prompt, max_tokens=60, sampling=WARM, generated_ids=whole[:17])
    others = [request(str(length), length, 20, sampling=WARM) for length in (3, 40, 90)]
    assert run(load(models), *others, rest, every=2).tokens["a"] == whole[17:]


def test_what_an_earlier_owner_left_does_no_harm(runner: NativeRunner) -> None:
    prompt = prompt_of(21)
    expected = alone(runner, prompt)
    with torch.inference_mode():
        for cache in (runner._decoder._keys, runner._decoder._values):
            cache.fill_(torch.nan)
    assert torch.equal(alone(runner, prompt), expected)


def test_a_row_without_a_number_fails_alone(models: Path) -> None:
    engine = load(models)
    runner = engine._runner
    assert isinstance(runner, NativeRunner)
    runner._decoder.weights.embedding[5] = torch.nan

    answers = run(engine, request("bad", prompt_ids=(1, 5, 2)), request("good", prompt_ids=(1, 6, 2)))

    assert answers.finish == {"bad": "error", "good": "max_tokens"}


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        (
            GPT2Config(
                vocab_size=VOCAB_SIZE,
                n_embd=32,
                n_layer=2,
                n_head=2,
                n_positions=64,
                eos_token_id=96,
                bos_token_id=None,
            ),
            "gpt2",
        ),
        (LlamaConfig(**tiny_config()), "head_dim"),
        (LlamaConfig(**tiny_config(**SIZES, hidden_act="gelu")), "gelu"),
        (LlamaConfig(**tiny_config(**SIZES, attention_bias=True)), "bias"),
    ],
    ids=["other", "heads", "activation", "bias"],
)
def test_others_are_left_to_torch(models: Path, config: PreTrainedConfig, problem: str) -> None:
    tools.save(model_of(config), models / "tiny")

    with pytest.raises(EngineError, match=problem):
        load(models)
    assert isinstance(load(models, kernels="auto")._runner, ModelRunner)


def test_who_asks_for_torch_gets_it(models: Path) -> None:
    assert isinstance(load(models, kernels="torch")._runner, ModelRunner)
    with pytest.raises(EngineError, match="SLUICE_DTYPE is float32"):
        load(models, dtype="float32")


def test_a_model_can_be_rounded(models: Path) -> None:
    assert len(run(load(models, quantize="int8"), request("a", 40, 20)).tokens["a"]) == 20
    with pytest.raises(EngineError, match="SLUICE_QUANTIZE=int8 needs"):
        load(models, quantize="int8", kernels="torch")
    with pytest.raises(EngineError, match="SLUICE_QUANTIZE=int8 cannot serve tiny: SLUICE_DTYPE is float32"):
        load(models, quantize="int8", kernels="auto", dtype="float32")


@pytest.mark.parametrize("most_in_float", [selftest.MOST_IN_FLOAT, 0])
@pytest.mark.parametrize(
    ("quantize", "problem"),
    [("none", r"something else than it \(0\.[67].* would be rounding\)"), ("int8", r"would be rounding to int8\)")],
)
def test_a_decoder_that_computes_something_else_is_not_used(
    models: Path, monkeypatch: pytest.MonkeyPatch, most_in_float: int, quantize: str, problem: str
) -> None:
    monkeypatch.setattr(selftest, "MOST_IN_FLOAT", most_in_float)
    load(models, quantize=quantize)
    exaggerate(monkeypatch, 1.65)
    with pytest.raises(EngineError, match=problem):
        load(models, quantize=quantize)
    assert quantize == "int8" or isinstance(load(models, kernels="auto")._runner, ModelRunner)


def test_a_small_model_is_known_so_well_that_a_decoder_may_not_be_much_off(
    models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exaggerate(monkeypatch, 1.25)
    with pytest.raises(EngineError, match=r"0\.20 would be rounding"):
        load(models)
    assert isinstance(load(models, quantize="int8")._runner, NativeRunner)


@pytest.mark.parametrize("config", FAMILY[1:], ids=lambda c: c.model_type + str(c.num_attention_heads))
def test_a_small_model_is_asked_in_float32(config: PreTrainedConfig) -> None:
    model = model_of(config)
    expected = selftest.expect_rounded(model, "none")
    floats = copy.deepcopy(model)
    torch.nn.Module.to(floats, torch.float32)
    with torch.inference_mode():
        for name, prompt in expected.prompts.items():
            logits = floats(input_ids=torch.tensor([prompt])).logits[0]
            torch.testing.assert_close(expected.logits[name], logits, rtol=1e-3, atol=1e-4)


def exaggerate(monkeypatch: pytest.MonkeyPatch, factor: float) -> None:
    """Let the decoder be off."""
    right = NativeRunner.logits

    def wrong(self: NativeRunner, chunks: list[Chunk]) -> tuple[Tensor, list[Sequence]]:
        logits, sequences = right(self, chunks)
        return logits * factor, sequences

    monkeypatch.setattr(NativeRunner, "logits", wrong)
