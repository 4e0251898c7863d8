"""Tiny models, requests for them, and what an engine said."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from transformers import LlamaForCausalLM, PreTrainedModel

from inference.engines.base import EngineRequest, FinishReason, StepOutput
from inference.engines.transformers import TransformersEngine
from inference.protocol.requests import Sampling
from inference.protocol.settings import Settings

VOCAB_SIZE = 97
END_IDS = [96, 95]


def save(model: PreTrainedModel, folder: Path) -> None:
    model.save_pretrained(folder, safe_serialization=True)


def tiny_config(**changes: Any) -> dict[str, Any]:
    return {
        "vocab_size": VOCAB_SIZE,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 512,
        "bos_token_id": None,
        "eos_token_id": END_IDS,
        "pad_token_id": None,
    } | changes


GREEDY = Sampling(temperature=0)
WARM = Sampling(temperature=1, top_p=0.95, top_k=50, seed=11)


def prompt_of(length: int, seed: int = 0) -> tuple[int, ...]:
    return tuple(random.Random(seed * 1000 + length).choices(range(VOCAB_SIZE - 2), k=length))


def request(name: str, length: int = 5, max_tokens: int = 8, **changes: Any) -> EngineRequest:
    fields: dict[str, Any] = {"prompt_ids": prompt_of(length), "sampling": GREEDY} | changes
    return EngineRequest(id=name, max_tokens=max_tokens, **fields)


class Answers:
    """What an engine said, by request."""

    def __init__(self) -> None:
        self.tokens: dict[str, tuple[int, ...]] = {}
        self.finish: dict[str, FinishReason] = {}
        self.errors: dict[str, str] = {}

    def hear(self, outputs: Iterable[StepOutput]) -> None:
        for output in outputs:
            assert output.id not in self.finish, "spoken of after its end"
            self.tokens[output.id] = self.tokens.get(output.id, ()) + output.token_ids
            if output.finish is not None:
                self.finish[output.id] = output.finish
                self.errors[output.id] = output.error


def run(engine: TransformersEngine, *requests: EngineRequest, every: int = 0) -> Answers:
    """Submit requests, `every` so many steps one, and step until all have ended."""
    answers = Answers()
    for each in requests:
        engine.submit(each)
        for _ in range(every):
            answers.hear(engine.step())
    while len(answers.finish) < len(requests):
        answers.hear(engine.step())
    assert engine.stats().kv_tokens_used == 0
    return answers


def load(models: Path, **changes: Any) -> TransformersEngine:
    defaults: dict[str, Any] = {
        "model": "tiny",
        "device": "cpu",
        "dtype": "float32",
        "max_batch_tokens": 16,
        "kv_cache_tokens": 512,
    }
    return TransformersEngine.load(Settings(models=str(models), **(defaults | changes)))


def generated_alone(reference: LlamaForCausalLM, prompt: tuple[int, ...], max_tokens: int) -> tuple[int, ...]:
    """Return what transformers' own `generate` says, without the end-of-text token."""
    ids = torch.tensor([prompt])
    output = reference.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=max_tokens, do_sample=False, pad_token_id=0
    )
    tokens: list[int] = output[0, len(prompt) :].tolist()
    return tuple(tokens[:-1] if tokens[-1] in END_IDS else tokens)
