"""The tensors of one step, laid out once for all layers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from inference.engines.transformers.attention import (
    Context,
    DecodeReader,
    PaddedDecodeReader,
    PagedStep,
    PrefillReader,
    Reader,
)
from inference.engines.transformers.cache import KVCache
from inference.engines.transformers.kv_blocks import PADDING
from inference.engines.transformers.sequence import Chunk


@dataclass(frozen=True, slots=True)
class Batch:
    """Chunks packed into one row: ids and positions [1, tokens], and the rows that a new token follows."""

    chunks: list[Chunk]
    token_ids: Tensor
    positions: Tensor
    last_rows: Tensor
    step: PagedStep


class BatchBuilder:
    """Lays chunks out over a cache of `block_size`. `pad_decodes` puts the sequences that decode into one call."""

    def __init__(self, cache: KVCache, block_size: int, *, pad_decodes: bool) -> None:
        self.cache = cache
        self.block_size = block_size
        self.pad_decodes = pad_decodes
        self._device = cache.keys.device
        self._dtype = cache.keys.dtype

    def build(self, chunks: list[Chunk]) -> Batch:
        # Longest first, so that neighbours are of like length and little is padded.
        chunks = sorted(chunks, key=lambda chunk: (chunk.num_tokens > 1, -chunk.end))
        slots = [self._slot(chunk, at) for chunk in chunks for at in range(chunk.start, chunk.end)]
        return Batch(
            chunks=chunks,
            token_ids=self._tensor([t for c in chunks for t in c.sequence.token_ids[c.start : c.end]])[None],
            positions=self._tensor([at for chunk in chunks for at in range(chunk.start, chunk.end)])[None],
            last_rows=self._tensor([rows.stop - 1 for chunk, rows in _with_rows(chunks) if chunk.is_last]),
            step=PagedStep(self.cache, self._tensor(slots), list(self._readers(chunks))),
        )

    def _readers(self, chunks: list[Chunk]) -> Iterator[Reader]:
        num_decodes = sum(chunk.num_tokens == 1 for chunk in chunks)
        decodes, prefills = chunks[:num_decodes], chunks[num_decodes:]
        if self.pad_decodes:
            for rows in groups_of_like_length([chunk.end for chunk in decodes]):
                yield self._padded_reader(decodes[rows], rows)
        elif decodes:
            yield DecodeReader(slice(0, num_decodes), [self._context(chunk) for chunk in decodes])
        for chunk, rows in _with_rows(prefills, num_decodes):
            yield PrefillReader(rows, self._context(chunk), self._causal_mask(chunk))

    def _padded_reader(self, chunks: list[Chunk], rows: slice) -> PaddedDecodeReader:
        longest = max(len(chunk.table) for chunk in chunks)
        tables = self._tensor([chunk.table + [PADDING] * (longest - len(chunk.table)) for chunk in chunks])
        lengths = self._tensor([chunk.end for chunk in chunks])
        is_padding = torch.arange(longest * self.block_size, device=self._device) >= lengths[:, None]
        slots = self._slots_of(tables).masked_fill_(is_padding, 0)
        mask = torch.zeros(slots.shape, dtype=self._dtype, device=self._device).masked_fill_(is_padding, -torch.inf)
        return PaddedDecodeReader(rows, slots.flatten(), mask[None, :, None])

    def _context(self, chunk: Chunk) -> Context:
        table = chunk.table
        if table == list(range(table[0], table[0] + len(table))):
            start = table[0] * self.block_size
            return self.cache.window(start, start + chunk.end).__getitem__
        slots = self._slots_of(self._tensor([table]))[0, : chunk.end]
        return partial(self.cache.gather, slots=slots)

    def _causal_mask(self, chunk: Chunk) -> Tensor | None:
        if chunk.start == 0:
            return None
        mask = torch.full((chunk.num_tokens, chunk.end), -torch.inf, dtype=self._dtype, device=self._device)
        return mask.triu_(chunk.start + 1)

    def _slot(self, chunk: Chunk, at: int) -> int:
        return chunk.table[at // self.block_size] * self.block_size + at % self.block_size

    def _slots_of(self, tables: Tensor) -> Tensor:
        """Return the slots of blocks: [sequences, blocks] to [sequences, blocks * block_size]."""
        return (tables[..., None] * self.block_size + torch.arange(self.block_size, device=self._device)).flatten(1)

    def _tensor(self, values: list[int] | list[list[int]]) -> Tensor:
        return torch.tensor(values, dtype=torch.long, device=self._device)


def groups_of_like_length(lengths: list[int]) -> Iterator[slice]:
    """Cut falling lengths into runs in which none is less than half of the first: at most half of it is padding."""
    start = 0
    for index in range(1, len(lengths) + 1):
        if index == len(lengths) or lengths[index] * 2 < lengths[start]:
            yield slice(start, index)
            start = index


def _with_rows(chunks: list[Chunk], start: int = 0) -> Iterator[tuple[Chunk, slice]]:
    for chunk in chunks:
        yield chunk, slice(start, start + chunk.num_tokens)
        start += chunk.num_tokens
