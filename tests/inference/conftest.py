"""A worker on a bench, with the real model's tokenizer."""

from __future__ import annotations

from pathlib import Path

import pytest
import redis
from tokenizers import Tokenizer

from inference.detokenizer import Vocabulary
from tests.inference.tools import Bench


@pytest.fixture(scope="session")
def words(model_folder: Path) -> Tokenizer:
    return Tokenizer.from_file(str(model_folder / "tokenizer.json"))


@pytest.fixture(scope="session")
def vocabulary(model_folder: Path) -> Vocabulary:
    return Vocabulary.load(model_folder)


@pytest.fixture
def bench(store: redis.Redis, vocabulary: Vocabulary) -> Bench:
    return Bench(store, vocabulary)
