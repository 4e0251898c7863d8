"""Attention over the paged cache, in the place where transformers lets a caller put its own.

All tokens of a step are one row [1, tokens]. A `Step` travels beside them through the model's keyword arguments, so that
two models in one process share nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

from inference.engines.transformers.cache import KVCache

NAME = "sluice_paged"


class Step(Protocol):
    """What each layer's attention asks; queries [1, heads, tokens, dim] become outputs [tokens, heads, dim]."""

    def attend(self, layer: Any, query: Tensor, key: Tensor, value: Tensor, scale: float, extra: dict[str, Any]) -> Tensor:
        """Keep the keys and values of one layer, and attend to them."""


def paged_attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    step: Step,
    scaling: float | None = None,
    **extra: Any,
) -> tuple[Tensor, None]:
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    output = step.attend(module, query, key, value, scale, {"attention_mask": attention_mask, **extra})
    return output.unsqueeze(0), None


AttentionInterface.register(NAME, paged_attention)


class Reader(Protocol):
    """A share of the step's tokens: queries [heads, tokens, dim] become outputs [tokens, heads, dim]."""

    rows: slice

    def read(self, cache: KVCache, layer: int, query: Tensor, scale: float) -> Tensor:
        """Attend to what the cache holds."""


@dataclass(frozen=True, slots=True)
class PagedStep:
    """One step over the cache: where its new tokens go, and who reads what. Its readers cover the rows in order."""

    cache: KVCache
    slots: Tensor
    readers: list[Reader]

    def attend(self, layer: Any, query: Tensor, key: Tensor, value: Tensor, scale: float, extra: dict[str, Any]) -> Tensor:
        index = layer.layer_idx
        self.cache.write(index, self.slots, key[0], value[0])
        return torch.cat([r.read(self.cache, index, query[0, :, r.rows], scale) for r in self.readers])


@dataclass(frozen=True, slots=True)
class SequenceReader:
    """The chunk of one sequence, which reads the cache in place, or gathers its slots where they are scattered."""

    rows: slice
    context: Callable[[int], tuple[Tensor, Tensor]]
    mask: Tensor | None  # [tokens, context] where a chunk follows what is cached already; None at the very start

    def read(self, cache: KVCache, layer: int, query: Tensor, scale: float) -> Tensor:
        keys, values = self.context(layer)
        num_heads, num_tokens, _ = query.shape
        # Heads that share their keys become a dimension of their own: [kv_heads, group, tokens, dim].
        query = query.unflatten(0, (keys.shape[0], -1))
        if num_tokens == 1:
            output = scaled_dot_product_attention(query.transpose(1, 2), keys[:, None], values[:, None], scale=scale)
            return output.reshape(1, num_heads, -1)
        group = query.shape[1]
        keys, values = (tensor[:, None].expand(-1, group, -1, -1) for tensor in (keys, values))
        output = scaled_dot_product_attention(
            query, keys, values, attn_mask=self.mask, is_causal=self.mask is None, scale=scale
        )
        return output.flatten(0, 1).transpose(0, 1)


@dataclass(frozen=True, slots=True)
class DecodeReader:
    """One token each of many sequences, padded to the longest: few launches, which is what counts on a GPU."""

    rows: slice
    slots: Tensor  # [sequences * longest]
    mask: Tensor  # [1, sequences, 1, longest]

    def read(self, cache: KVCache, layer: int, query: Tensor, scale: float) -> Tensor:
        keys, values = cache.gather(layer, self.slots)
        num_heads, num_rows, _ = query.shape
        query = query.unflatten(0, (keys.shape[0], -1)).transpose(1, 2)
        keys, values = (tensor.unflatten(1, (num_rows, -1)) for tensor in (keys, values))
        mask = self.mask.expand(*query.shape[:3], -1)
        output = scaled_dot_product_attention(query, keys, values, attn_mask=mask, scale=scale)
        return output.transpose(0, 1).reshape(num_rows, num_heads, -1)
