from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    BloomConfig,
    GPT2Config,
    MambaConfig,
    MistralConfig,
    MixtralConfig,
    PreTrainedConfig,
    Qwen2Config,
)

from inference.engines.transformers import runner as runner_module
from inference.engines.transformers.batch import BatchBuilder
from inference.engines.transformers.loading import ModelError
from tests.inference.engines.transformers.tools import END_IDS, VOCAB_SIZE, load, request, run, save, tiny_config


def make(config: PreTrainedConfig, models: Path) -> None:
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]  # transformers has it untyped
    save(model, models / "tiny")


def test_it_works(models: Path) -> None:
    engine = load(models, kv_cache_tokens=300, max_batch=7)

    assert engine.context_length == 300
    assert engine.max_batch == 7
    assert engine._end_ids == set(END_IDS)


def test_the_context_ends_where_the_model_does(models: Path) -> None:
    assert load(models, kv_cache_tokens=10_000).context_length == 512


def test_it_computes_in_bfloat16(models: Path) -> None:
    assert len(run(load(models, dtype="bfloat16"), request("a", 17, 5)).tokens["a"]) == 5


@pytest.mark.parametrize(
    "config",
    [
        Qwen2Config(**tiny_config(use_sliding_window=False)),
        MixtralConfig(**tiny_config(num_local_experts=2, sliding_window=None)),
        MistralConfig(**tiny_config(sliding_window=512)),
        GPT2Config(vocab_size=VOCAB_SIZE, n_embd=32, n_layer=2, n_head=2, n_positions=64, eos_token_id=96),
    ],
    ids=lambda config: config.model_type,
)
def test_it_serves_other_models(tmp_path: Path, config: PreTrainedConfig) -> None:
    make(config, tmp_path)

    assert run(load(tmp_path), request("a", 20, 5)).finish.keys() == {"a"}


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        (MistralConfig(**tiny_config(sliding_window=100)), "last 100 tokens only"),
        (
            MambaConfig(vocab_size=VOCAB_SIZE, hidden_size=32, num_hidden_layers=2, state_size=4),
            "without attention",
        ),
        (BloomConfig(vocab_size=VOCAB_SIZE, hidden_size=32, n_layer=2, n_head=2), "without attention"),
    ],
    ids=lambda value: getattr(value, "model_type", ""),
)
def test_it_refuses_models_it_would_serve_wrongly(tmp_path: Path, config: PreTrainedConfig, problem: str) -> None:
    make(config, tmp_path)

    with pytest.raises(ModelError, match=problem):
        load(tmp_path)


def test_it_refuses_a_missing_model(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="fetch_model"):
        load(tmp_path)


def test_it_refuses_pickles(models: Path, tmp_path: Path) -> None:
    make(MistralConfig(**tiny_config()), tmp_path)
    (tmp_path / "tiny" / "model.safetensors").rename(tmp_path / "tiny" / "pytorch_model.bin")

    with pytest.raises(ModelError, match="safetensors"):
        load(tmp_path)


def test_it_says_what_is_wrong_with_broken_weights(tmp_path: Path) -> None:
    make(MistralConfig(**tiny_config()), tmp_path)
    (tmp_path / "tiny" / "model.safetensors").write_bytes(b"no weights")

    with pytest.raises(ModelError, match="cannot be loaded"):
        load(tmp_path)


def test_it_refuses_code_of_the_models_own(tmp_path: Path) -> None:
    make(MistralConfig(**tiny_config()), tmp_path)
    path = tmp_path / "tiny" / "config.json"
    config: dict[str, Any] = json.loads(path.read_text())
    config |= {"model_type": "own", "auto_map": {"AutoConfig": "own.Own", "AutoModelForCausalLM": "own.Own"}}
    path.write_text(json.dumps(config))
    (tmp_path / "tiny" / "own.py").write_text("raise SystemExit('ran')")

    with pytest.raises(ValueError, match="custom code"):
        load(tmp_path)


def test_it_refuses_to_compute_something_else_than_the_model(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BatchBuilder, "_slot", lambda builder, chunk, at: chunk.table[0])

    with pytest.raises(ModelError, match="something else"):
        load(models)


def test_it_makes_a_smaller_cache_where_memory_is_short(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bytes_per_token = 2 * 2 * (8 + 8) * 4  # layers, heads, keys and values, float32
    monkeypatch.setattr(runner_module, "free_memory", lambda device: 100 * 16 * bytes_per_token)

    assert load(models, kv_cache_tokens=10_000).stats().kv_tokens_total == 80 * 16


def test_it_refuses_a_model_that_leaves_no_memory(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner_module, "free_memory", lambda device: 1000)

    with pytest.raises(ModelError, match="no memory"):
        load(models)
