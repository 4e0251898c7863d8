"""Kernels compiled once for all tests, and tiny models that they serve."""

from __future__ import annotations

import ctypes
import shutil
from pathlib import Path

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from inference.engines.transformers.bringing_up import KERNELS
from inference.engines.transformers.native.build import load_kernels
from tests.inference.engines.transformers.tools import save, tiny_config

SIZES = {"hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4}


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the kernels. A machine that runs these tests has a C compiler."""
    folder = tmp_path_factory.mktemp("kernels")
    load_kernels(folder, threads=2)
    return folder


@pytest.fixture(scope="session")
def kernels(compiled: Path) -> ctypes.CDLL:
    return load_kernels(compiled, threads=2)


@pytest.fixture
def models(tmp_path: Path, compiled: Path) -> Path:
    """A folder of models whose kernels need no compiling, with one model in it."""
    shutil.copytree(compiled, tmp_path / KERNELS)
    torch.manual_seed(0)
    save(LlamaForCausalLM(LlamaConfig(**tiny_config(**SIZES))), tmp_path / "tiny")
    return tmp_path
