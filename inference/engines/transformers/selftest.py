"""Hold the engine's computation against the model's own, before anyone is served."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from transformers import PreTrainedModel

from inference.engines.base import EngineRequest
from inference.engines.transformers.kv_blocks import BlockPool
from inference.engines.transformers.loading import ModelError
from inference.engines.transformers.runner import BLOCK_SIZE, StepRunner
from inference.engines.transformers.scheduler import Scheduler
from inference.engines.transformers.sequence import Sequence

# How far off the logits may be, as a share of their own spread: what rounding explains, and some. How much that is in
# bfloat16 depends on the model; a wrong mask, position or scale comes to 0.5 and more in any.
LEAST_TOLERANCE, MOST_TOLERANCE = 0.1, 0.45
NOISE_FACTOR = 4.0
# Against the same weights in float32 there is only our own rounding. SmolLM2's comes to 0.06, to 0.13 with int8.
TOLERANCES = {"none": 0.2, "int8": 0.35}
ROUNDINGS = {"none": "rounding", "int8": "rounding to int8"}
MOST_IN_FLOAT = 500_000_000  # weights; with more it would take seconds


@dataclass(frozen=True, slots=True)
class Expectation:
    """What a model says to some prompts, each alone: logits [tokens, vocab], and how far off may be right."""

    model: str
    prompts: dict[str, list[int]]
    logits: dict[str, Tensor]
    tolerance: float
    rounding: str = ROUNDINGS["none"]


@torch.inference_mode()
def expect(model: PreTrainedModel) -> Expectation:
    """Ask the model itself, twice: how much two right ways of computing attention differ is the noise of its type."""
    prompts = _prompts(model)
    logits, again = (_logits_alone(model, prompts, way) for way in ("eager", "sdpa"))
    noise = max(_distance(a, b) for name in prompts for a, b in zip(again[name], logits[name], strict=True))
    tolerance = min(max(LEAST_TOLERANCE, NOISE_FACTOR * noise), MOST_TOLERANCE)
    return Expectation(type(model).__name__, prompts, logits, tolerance)


@torch.inference_mode()
def expect_rounded(model: PreTrainedModel, quantize: str) -> Expectation:
    """Ask a model in float32 what a decoder that rounds should come near to; a large model as `expect` does."""
    if model.num_parameters() > MOST_IN_FLOAT:
        near = expect(model)
        tolerance = near.tolerance if quantize == "none" else max(near.tolerance, TOLERANCES[quantize])
        return replace(near, tolerance=tolerance, rounding=ROUNDINGS[quantize])
    prompts = _prompts(model)
    with _InFloat():
        logits = _logits_alone(model, prompts, "eager")
    return Expectation(type(model).__name__, prompts, logits, TOLERANCES[quantize], ROUNDINGS[quantize])


@torch.inference_mode()
def check_agrees(runner: StepRunner, expected: Expectation) -> None:
    """Raise `ModelError` unless sequences computed in chunks and side by side get the logits they get alone."""
    scheduler = Scheduler(BlockPool(runner.num_blocks, BLOCK_SIZE), max_batch=2, max_batch_tokens=24)
    for name, prompt in expected.prompts.items():
        scheduler.add(Sequence.of(EngineRequest(id=name, prompt_ids=tuple(prompt[:-1]), max_tokens=2)))
    for _ in range(4):  # three of prefill, in which the short one joins, and one of decode
        chunks = scheduler.schedule()
        logits, sequences = runner.logits(chunks)
        for chunk in chunks:
            chunk.sequence.num_computed = chunk.end
        for row, sequence in zip(logits, sequences, strict=True):
            distance = _distance(row, expected.logits[sequence.id][sequence.num_tokens - 1])
            if not distance < expected.tolerance:  # NaN is not less
                raise ModelError(
                    f"{expected.model} cannot be served: our batching computes something else than it "
                    f"({distance:.2f} off, {expected.tolerance:.2f} would be {expected.rounding})."
                )
            sequence.token_ids.append(expected.prompts[sequence.id][-1])
            if sequence.is_full:
                scheduler.remove(sequence)


def _prompts(model: PreTrainedModel) -> dict[str, list[int]]:
    vocab_size = model.config.get_text_config().vocab_size
    ids = [(7919 * index + 31) % vocab_size for index in range(60)]
    return {"long": ids[:40], "short": ids[40:55]}


class _InFloat(TorchFunctionMode):
    """Compute in float32 with weights of another type, each made when it is needed: all others follow their inputs."""

    def __torch_function__(
        self, func: Any, types: Iterable[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is functional.linear:
            args = tuple(each if each is None else each.float() for each in args)
        result = func(*args, **(kwargs or {}))
        return result.float() if func is functional.embedding else result


def _logits_alone(model: PreTrainedModel, prompts: dict[str, list[int]], way: str) -> dict[str, Tensor]:
    ours = model.config._attn_implementation
    try:
        model.set_attn_implementation(way)
    except (ValueError, ImportError):  # a model without it; then nothing is known of the noise
        model.set_attn_implementation("eager")
    try:
        tensors = {name: torch.tensor([prompt], device=model.device) for name, prompt in prompts.items()}
        return {name: model(input_ids=ids, use_cache=False).logits[0] for name, ids in tensors.items()}
    finally:
        model.set_attn_implementation(ours)


def _distance(got: Tensor, expected: Tensor) -> float:
    got, expected = got.float(), expected.float()
    return float((got - expected).norm() / (expected - expected.mean()).norm())
