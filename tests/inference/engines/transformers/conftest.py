"""A tiny random model, so that the engine's tests take seconds."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from inference.engines.transformers import TransformersEngine
from tests.inference.engines.transformers.tools import load, save, tiny_config
from tests.inference.threads import one_thread as one_thread


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the model `tiny`."""
    folder = tmp_path_factory.mktemp("models")
    torch.manual_seed(0)
    # Weights far larger than usual make the logits differ enough that no two tokens tie.
    model = LlamaForCausalLM(LlamaConfig(**tiny_config(initializer_range=0.5)))
    save(model, folder / "tiny")
    return folder


@pytest.fixture(scope="session")
def reference(models: Path) -> LlamaForCausalLM:
    return LlamaForCausalLM.from_pretrained(models / "tiny")


@pytest.fixture
def engine(models: Path) -> TransformersEngine:
    return load(models)
