"""Small models that the tests make and train, and texts of two kinds for them: of the sea and of the farm."""

from __future__ import annotations

import random
import string
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import TemplateProcessing
from transformers import DistilBertConfig, DistilBertForSequenceClassification, PreTrainedModel, PreTrainedTokenizerFast

from tests.inference.threads import one_thread as one_thread

SEA = ["ship", "harbour", "sail", "anchor", "wave", "captain", "island", "tide", "whale", "net"]
FARM = ["cow", "barn", "field", "plough", "wheat", "farmer", "hen", "orchard", "horse", "fence"]
PLAIN = [
    "the",
    "old",
    "man",
    "saw",
    "a",
    "big",
    "one",
    "near",
    "his",
    "house",
    "while",
    "they",
    "talked",
    "about",
    "it",
    "in",
    "summer",
    "and",
    "we",
    "liked",
    "that",
    "day",
]
MOST_TOKENS = 48


def sentence(rng: random.Random, *kinds: Sequence[str]) -> str:
    """Return plain words with two of each kind among them."""
    words = rng.choices(PLAIN, k=rng.randrange(4, 43)) + [word for kind in kinds for word in rng.sample(kind, 2)]
    rng.shuffle(words)
    return " ".join(words)


@dataclass(frozen=True)
class Example:
    text: str
    labels: tuple[float, float]  # sea, farm


def examples(seed: int, number: int, *, exclusive: bool) -> list[Example]:
    """Return texts and what they are about: one of two things, or also both or none."""
    rng = random.Random(seed)
    choices = [(SEA,), (FARM,)] if exclusive else [(SEA,), (FARM,), (SEA, FARM), ()]
    kinds = [rng.choice(choices) for _ in range(number)]
    return [Example(sentence(rng, *each), (float(SEA in each), float(FARM in each))) for each in kinds]


def make_tokenizer() -> PreTrainedTokenizerFast:
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    letters = [mark + letter for mark in ("", "##") for letter in string.ascii_lowercase]
    vocabulary = {token: i for i, token in enumerate(dict.fromkeys([*special, *SEA, *FARM, *PLAIN, *letters]))}
    tokenizer = Tokenizer(WordPiece(vocabulary, unk_token="[UNK]"))  # not trained: that ends differently each time
    tokenizer.normalizer = BertNormalizer()
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.post_processor = TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token"), special, strict=True))
    options = {"tokenizer_object": tokenizer, "model_max_length": MOST_TOKENS, **names}
    return PreTrainedTokenizerFast(**options)  # type: ignore[no-untyped-call]  # transformers has it untyped


def train(tokenizer: PreTrainedTokenizerFast) -> PreTrainedModel:
    """Return a model that says what texts are about."""
    torch.manual_seed(0)
    config = DistilBertConfig(
        vocab_size=len(tokenizer), dim=32, hidden_dim=64, n_layers=2, n_heads=2, max_position_embeddings=MOST_TOKENS,
        dropout=0.0, initializer_range=0.1, problem_type="multi_label_classification",
        id2label={0: "sea", 1: "farm"}, label2id={"sea": 0, "farm": 1}, pad_token_id=0,
    )  # fmt: skip
    model: PreTrainedModel = DistilBertForSequenceClassification(config)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step in range(160):
        batch = examples(step, 32, exclusive=False)
        encoded = tokenizer([each.text for each in batch], padding=True, truncation=True, return_tensors="pt")
        labels = torch.tensor([each.labels for each in batch])
        model(encoded["input_ids"], attention_mask=encoded["attention_mask"], labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return model


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that the model of `toxicity` is brought to."""
    return tmp_path_factory.mktemp("classifiers")


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the models `exclusive`, whose labels exclude each other, and `independent`."""
    folder = tmp_path_factory.mktemp("models")
    tokenizer = make_tokenizer()
    model = train(tokenizer)
    model.save_pretrained(folder / "independent")
    model.config.problem_type = "single_label_classification"
    model.save_pretrained(folder / "exclusive")
    for name in ("independent", "exclusive"):
        tokenizer.save_pretrained(folder / name)
    return folder
