"""Attention over the paged cache, in the place where transformers lets a caller put its own.

All tokens of a step are one row [1, tokens]. A `Step` travels beside them through the model's keyword arguments, so
that two models in one process share nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

from inference.engines.transformers.cache import KeysAndValues, KVCache

NAME = "sluice_paged"

Extra = dict[str, Any]  # what a model hands its attention beyond the usual


class Step(Protocol):
    """What each layer's attention asks; queries [1, heads, tokens, dim] become outputs [tokens, heads, dim]."""

    def attend(self, layer: Any, query: Tensor, key: Tensor, value: Tensor, scale: float, extra: Extra) -> Tensor:
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


class Context(Protocol):
    """What one sequence attends to."""

    def __call__(self, layer: int, /) -> KeysAndValues:
        """Return it for one layer."""


class Reader(Protocol):
    """The attention of some rows of the step: queries [heads, rows, dim] become outputs [rows, heads, dim]."""

    @property
    def rows(self) -> slice:
        """Return which rows."""

    def read(self, cache: KVCache, layer: int, query: Tensor, scale: float) -> Tensor:
        """Attend to what the cache holds."""


@dataclass(frozen=True, slots=True)
class PagedStep:
    """One step over the cache: where its new tokens go, and who reads what. Its readers cover the rows in order."""

    cache: KVCache
    slots: Tensor
    readers: list[Reader]

    def attend(self, layer: Any, query: Tensor, key: Tensor, value: Tensor, scale: float, extra: Extra) -> Tensor:
        index = layer.layer_idx
        self.cache.write(index, self.slots, key[0], value[0])
        return torch.cat([r.read(self.cache, index, query[0, :, r.rows], scale) for r in self.readers])


@dataclass(frozen=True, slots=True)
class PrefillReader:
    """The chunk of one sequence."""

    rows: slice
    context: Context
    mask: Tensor | None  # [rows, context]; None at the start of a sequence, where plain causal attention will do

    def read(self, cache: KVCache, layer: int, query: Tensor, scale: float) -> Tensor:
        query, keys, values = _by_group(query, *self.context(layer))
        output = scaled_dot_product_attention(
            query, keys, values, attn_mask=self.mask, is_causal=self.mask is None, scale=scale
        )
        return output.flatten(0, 1).transpose(0, 1)


def _by_kv_head(query: Tensor, keys: Tensor) -> Tensor:
    """Put the heads that share keys together: [heads, rows, dim] to [kv_heads, group, rows, dim]."""
    return query.view(keys.shape[1], -1, *query.shape[1:])


def _by_group(query: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Give heads that share keys a dimension of their own: all become [kv_heads, group, tokens, dim], uncopied."""
    query = _by_kv_head(query, keys)
    keys, values = (tensor.transpose(0, 1).expand(-1, query.shape[1], -1, -1) for tensor in (keys, values))
    return query, keys, values


@dataclass(frozen=True, slots=True)
class DecodeReader:
    """One token each of some sequences, a call each: nothing is copied, and on a CPU copies cost the most."""

    rows: slice
    contexts: list[Context]

    def read(self, cache: KVCache, layer: int, query: Tensor, scale: float) -> Tensor:
        num_heads, num_rows, _ = query.shape
        outputs = []
        rows: tuple[Tensor, ...] = ()
        for row, context in enumerate(self.contexts):
            keys, values = context(layer)
            # Heads that share their keys are the rows of one query: [1, kv_heads, group, dim].
            rows = rows or _by_kv_head(query, keys)[None].unbind(3)
            outputs.append(scaled_dot_product_attention(rows[row], keys, values, scale=scale))
        return torch.cat(outputs).reshape(num_rows, num_heads, -1)


@dataclass(frozen=True, slots=True)
class PaddedDecodeReader:
    """One token each of some sequences in one call, padded to the longest: launches are what counts on a GPU."""

    rows: slice
    slots: Tensor  # [rows * longest]
    mask: Tensor  # [1, rows, 1, longest]

    def read(self, cache: KVCache, layer: int, query: Tensor, scale: float) -> Tensor:
        keys, values = cache.gather(layer, self.slots)
        num_heads, num_rows, _ = query.shape
        # The rows stand where heads do: [kv_heads, rows, group, dim] over [kv_heads, rows, longest, dim].
        query = _by_kv_head(query, keys).transpose(1, 2)
        keys, values = (tensor[0].view(tensor.shape[1], num_rows, -1, tensor.shape[3]) for tensor in (keys, values))
        mask = self.mask.expand(*query.shape[:3], -1)
        output = scaled_dot_product_attention(query, keys, values, attn_mask=mask, scale=scale)
        return output.transpose(0, 1).reshape(num_rows, num_heads, -1)
