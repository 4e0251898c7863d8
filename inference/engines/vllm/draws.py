"""Our sampling inside vLLM: a token depends on the model's output, the seed and the position, and on nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from vllm.v1.sample.logits_processor import BatchUpdate, LogitsProcessor, MoveDirectionality

from inference.engines.transformers.sampling import Draw, Sampler
from inference.protocol.requests import Sampling

KEY = "sluice"

Row = tuple[Sampling, int, Sequence[int]]  # how to draw, the first position, and what was generated since, growing


def extra_args(sampling: Sampling, position: int) -> dict[str, Any]:
    """Return what a request carries through vLLM to `Draws`."""
    return {KEY: [sampling.temperature, sampling.top_p, sampling.top_k, str(sampling.seed), position]}


class Draws(LogitsProcessor):  # type: ignore[misc]  # vLLM is not here when types are checked
    """Leave of each row of logits only the token that is drawn; vLLM takes the likeliest, so it takes that."""

    def __init__(self, vllm_config: Any, device: torch.device, is_pin_memory: bool) -> None:
        self._sampler = Sampler(vllm_config.model_config.get_vocab_size(), device)
        self._rows: dict[int, Row] = {}

    def is_argmax_invariant(self) -> bool:
        return False

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        """Follow the requests to their rows."""
        if batch_update is None:
            return
        for row in batch_update.removed:
            self._rows.pop(row, None)
        for row, params, _, output_ids in batch_update.added:
            temperature, top_p, top_k, seed, position = params.extra_args[KEY]
            sampling = Sampling(temperature=temperature, top_p=top_p, top_k=top_k, seed=int(seed))
            self._rows[row] = (sampling, position, output_ids)
        for row, target, direction in batch_update.moved:
            self._move(row, target, swap=direction == MoveDirectionality.SWAP)

    def apply(self, logits: Tensor) -> Tensor:
        """Draw for those rows that are not for the likeliest token anyway; logits [rows, vocab]."""
        draws = {
            row: Draw(sampling, position + len(output_ids))
            for row, (sampling, position, output_ids) in self._rows.items()
            if row < len(logits)
        }
        warm = {row: draw for row, draw in draws.items() if not draw.is_greedy}
        if not warm:
            return logits
        rows = list(warm)
        for row, token in zip(rows, self._sampler.sample(logits[rows], list(warm.values())), strict=True):
            if token is not None:
                logits[row].fill_(-torch.inf)
                logits[row, token] = 0
        return logits

    def _move(self, row: int, target: int, *, swap: bool) -> None:
        moved, other = self._rows.pop(row, None), self._rows.pop(target, None)
        if moved is not None:
            self._rows[target] = moved
        if swap and other is not None:
            self._rows[row] = other
