"""Compute a step: chunks in, tokens out."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod

import torch
from transformers import PreTrainedModel

from inference.engines.transformers.batch import BatchBuilder
from inference.engines.transformers.cache import CacheShape, KVCache
from inference.engines.transformers.device import free_memory
from inference.engines.transformers.loading import ModelError
from inference.engines.transformers.sampling import Draw, Sampler
from inference.engines.transformers.sequence import Chunk, Sequence

logger = logging.getLogger(__name__)

BLOCK_SIZE = 16
LEAST_CACHE = 256  # tokens; the least that SLUICE_KV_CACHE_TOKENS takes
CACHE_SHARE = 0.8  # of the memory that the weights leave; the rest is for the steps


class StepRunner(ABC):
    """A model with its cache of `num_blocks` blocks beside the one for padding."""

    def __init__(self, vocab_size: int, num_blocks: int, sampler: Sampler) -> None:
        self.vocab_size = vocab_size
        self.num_blocks = num_blocks
        self._sampler = sampler

    @abstractmethod
    def logits(self, chunks: list[Chunk]) -> tuple[torch.Tensor, list[Sequence]]:
        """Compute the chunks; return what may follow [sequences, vocab], and which sequences these are."""

    @torch.inference_mode()
    def run(self, chunks: list[Chunk]) -> list[tuple[Sequence, int | None]]:
        """Compute the chunks, and draw a token for each sequence of which nothing is left to compute."""
        logits, sequences = self.logits(chunks)
        draws = [Draw(s.request.sampling, s.num_generated, s.guide) for s in sequences]
        tokens = self._sampler.sample(logits, draws) if sequences else []
        return list(zip(sequences, tokens, strict=True))


class ModelRunner(StepRunner):
    """Any model of transformers, with our attention in it."""

    def __init__(self, model: PreTrainedModel, shape: CacheShape, num_blocks: int, *, pad_decodes: bool) -> None:
        vocab_size = model.config.get_text_config().vocab_size
        super().__init__(vocab_size, num_blocks, Sampler(vocab_size, model.device))
        self.model = model
        self.cache = KVCache(shape, (num_blocks + 1) * BLOCK_SIZE, model.dtype, model.device)
        self._builder = BatchBuilder(self.cache, BLOCK_SIZE, pad_decodes=pad_decodes)

    @torch.inference_mode()
    def logits(self, chunks: list[Chunk]) -> tuple[torch.Tensor, list[Sequence]]:
        batch = self._builder.build(chunks)
        output = self.model(
            input_ids=batch.token_ids,
            position_ids=batch.positions,
            use_cache=False,
            logits_to_keep=batch.last_rows,
            step=batch.step,
        )
        return output.logits[0], [chunk.sequence for chunk in batch.chunks if chunk.is_last]


def fitting_blocks(wanted_tokens: int, shape: CacheShape, model: PreTrainedModel) -> int:
    """Return how many blocks to make: those asked for, or fewer where memory is short."""
    wanted = -(-wanted_tokens // BLOCK_SIZE)
    free = free_memory(model.device)
    if free is None:
        return wanted
    fitting = int(free * CACHE_SHARE) // (shape.bytes_per_token(model.dtype) * BLOCK_SIZE)
    if fitting * BLOCK_SIZE < LEAST_CACHE:
        raise ModelError(f"{type(model).__name__} leaves no memory for a KV cache: {free >> 20} MiB are free.")
    if fitting < wanted:
        logger.warning("The KV cache gets %d tokens, not %d: memory is short.", fitting * BLOCK_SIZE, wanted_tokens)
    return min(wanted, fitting)
