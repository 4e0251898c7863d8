"""Hold the engine's computation against the model's own, before anyone is served."""

from __future__ import annotations

import torch
from torch import Tensor

from inference.engines.base import EngineRequest
from inference.engines.transformers.attention import NAME
from inference.engines.transformers.kv_blocks import BlockPool
from inference.engines.transformers.loading import ModelError
from inference.engines.transformers.runner import BLOCK_SIZE, ModelRunner
from inference.engines.transformers.scheduler import Scheduler
from inference.engines.transformers.sequence import Sequence

TOLERANCE = 0.1  # rounding in bfloat16 stays near 0.02; a wrong mask, position or scale comes to 0.5 and more


@torch.inference_mode()
def check_agrees(runner: ModelRunner) -> None:
    """Raise `ModelError` unless sequences computed in chunks and side by side get the logits they get alone."""
    ids = [(7919 * index + 31) % runner.vocab_size for index in range(60)]
    prompts = {"long": ids[:40], "short": ids[40:55]}
    expected = _logits_alone(runner, prompts)
    scheduler = Scheduler(BlockPool(runner.num_blocks, BLOCK_SIZE), max_batch=2, max_batch_tokens=24)
    for name, prompt in prompts.items():
        scheduler.add(Sequence.of(EngineRequest(id=name, prompt_ids=tuple(prompt[:-1]), max_tokens=2)))
    for _ in range(4):  # three of prefill, in which the short one joins, and one of decode
        chunks = scheduler.schedule()
        logits, sequences = runner.logits(chunks)
        for chunk in chunks:
            chunk.sequence.num_computed = chunk.end
        for row, sequence in zip(logits, sequences, strict=True):
            _compare(row, expected[sequence.id][sequence.num_tokens - 1], type(runner.model).__name__)
            sequence.token_ids.append(prompts[sequence.id][-1])
            if sequence.is_full:
                scheduler.remove(sequence)


def _logits_alone(runner: ModelRunner, prompts: dict[str, list[int]]) -> dict[str, Tensor]:
    runner.model.set_attn_implementation("eager")
    try:
        tensors = {name: torch.tensor([prompt], device=runner.model.device) for name, prompt in prompts.items()}
        return {name: runner.model(input_ids=ids, use_cache=False).logits[0] for name, ids in tensors.items()}
    finally:
        runner.model.set_attn_implementation(NAME)


def _compare(got: Tensor, expected: Tensor, model: str) -> None:
    error = ((got - expected).float().norm() / (expected.float() - expected.float().mean()).norm()).item()
    if not error < TOLERANCE:  # NaN is not less
        raise ModelError(f"{model} cannot be served: our batching computes something else than it ({error:.2f} off).")
