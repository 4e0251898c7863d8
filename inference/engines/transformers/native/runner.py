"""Compute a step with the native decoder."""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor
from transformers import PreTrainedModel

from inference.engines.transformers.native.decoder import NativeDecoder
from inference.engines.transformers.native.sampler import NativeSampler
from inference.engines.transformers.native.weights import LANES, Pack, pack_bfloat16, rotations, shape_of, take_weights
from inference.engines.transformers.runner import BLOCK_SIZE, StepRunner
from inference.engines.transformers.sequence import Chunk, Sequence


class NativeRunner(StepRunner):
    """A model of the Llama family."""

    def __init__(
        self,
        kernels: ctypes.CDLL,
        model: PreTrainedModel,
        context_length: int,
        num_blocks: int,
        *,
        pack: Pack = pack_bfloat16,
    ) -> None:
        """Take a model's weights, and leave it without; raise `NotOfTheFamily`."""
        assert BLOCK_SIZE == LANES, "the kernels keep a block in one vector"
        vocab_size = model.config.vocab_size
        super().__init__(vocab_size, num_blocks, NativeSampler(kernels, vocab_size))
        shape, turns = shape_of(model), rotations(model, context_length)
        self._decoder = NativeDecoder(kernels, shape, take_weights(model, pack), turns, num_blocks + 1)

    @staticmethod
    def check(model: PreTrainedModel) -> None:
        """Raise `NotOfTheFamily` where it is plain that a model is."""
        shape_of(model)

    def logits(self, chunks: list[Chunk]) -> tuple[Tensor, list[Sequence]]:
        tables = [chunk.table for chunk in chunks]
        longest = max(map(len, tables))
        ends, row = [], -1
        for chunk in chunks:
            row += chunk.num_tokens
            if chunk.is_last:
                ends.append(row)
        logits = self._decoder.logits(
            token_ids=_tensor([token for c in chunks for token in c.sequence.token_ids[c.start : c.end]]),
            positions=_tensor([position for chunk in chunks for position in range(chunk.start, chunk.end)]),
            sequences=_tensor([index for index, chunk in enumerate(chunks) for _ in range(chunk.num_tokens)]),
            tables=_tensor([table + [0] * (longest - len(table)) for table in tables]),
            output_rows=_tensor(ends),
        )
        return logits, [chunk.sequence for chunk in chunks if chunk.is_last]


def _tensor(values: list[int] | list[list[int]]) -> Tensor:
    return torch.tensor(values, dtype=torch.int32)
