"""Where keys and values are kept."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

KeysAndValues = tuple[Tensor, Tensor]  # what one layer attends to, each [1, kv_heads, context, head_dim]


@dataclass(frozen=True, slots=True)
class CacheShape:
    """What a model keeps of one token."""

    num_layers: int
    num_kv_heads: int
    key_dim: int
    value_dim: int

    def bytes_per_token(self, dtype: torch.dtype) -> int:
        return self.num_layers * self.num_kv_heads * (self.key_dim + self.value_dim) * dtype.itemsize


class KVCache:
    """Keys and values of every layer, [layers, kv_heads, slots, head_dim]; a token's slot comes from its block."""

    def __init__(self, shape: CacheShape, num_slots: int, dtype: torch.dtype, device: torch.device) -> None:
        size = (shape.num_layers, shape.num_kv_heads, num_slots)
        # Left as it is: the memory is taken when it is written to, and no slot is read before.
        self.keys = torch.empty(*size, shape.key_dim, dtype=dtype, device=device)
        self.values = torch.empty(*size, shape.value_dim, dtype=dtype, device=device)
        self._layers = list(zip(self.keys.unbind(), self.values.unbind(), strict=True))
        # Padded rows read slot 0: what is masked must still be a number.
        self.keys[:, :, 0] = 0
        self.values[:, :, 0] = 0

    def write(self, layer: int, slots: Tensor, keys: Tensor, values: Tensor) -> None:
        """Store new tokens: slots [tokens], keys and values [kv_heads, tokens, head_dim]."""
        cached_keys, cached_values = self._layers[layer]
        cached_keys.index_copy_(1, slots, keys)
        cached_values.index_copy_(1, slots, values)

    def window(self, start: int, end: int) -> list[KeysAndValues]:
        """Return every layer's keys and values of neighbouring slots, uncopied."""
        keys, values = (tensor[:, None, :, start:end].unbind() for tensor in (self.keys, self.values))
        return list(zip(keys, values, strict=True))

    def gather(self, layer: int, slots: Tensor) -> KeysAndValues:
        """Return a copy of one layer's keys and values of scattered slots."""
        keys, values = self._layers[layer]
        return keys.index_select(1, slots)[None], values.index_select(1, slots)[None]
